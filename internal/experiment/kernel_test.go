package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/lang"
)

// kernel is what uname -r says on the director: each image has one of its own.
func (f *fakeLab) kernel() string {
	if f.image.IsZero() {
		return "6.1.0-fake"
	}
	return "6.12-of-" + f.image.Label
}

func twoKernels(_ *lang.Topology, e *lang.Experiment) {
	e.Isolation, e.Iterations = lang.IsolationRestore, 2
	e.Factors = []lang.Factor{factorOf("kernel", "image.old", "image.new"), factorOf("scheduler", "rr", "sh")}
}

// Runs of both kernels take turns inside a block, each on a director that boots the
// kernel of its treatment, and what the row says is what that director told. At the
// end the director is the declared one again.
func TestRunVariesTheKernel(t *testing.T) {
	r := runFake(t, twoKernels, nil)
	if r.err != nil || len(r.rec.runs) != 8 || !r.out.GivenBack {
		t.Fatalf("%d runs, %v", len(r.rec.runs), r.err)
	}
	blocks := map[int][]string{}
	for _, run := range r.rec.runs {
		image := run.Factors["kernel"]
		if run.Kernel != "6.12-of-"+image || !run.Valid {
			t.Errorf("%s ran on %q, valid %v", run.TreatmentID, run.Kernel, run.Valid)
		}
		if !strings.HasPrefix(run.TreatmentID, "kernel="+image+",scheduler=") || !strings.Contains(run.RunID, "-"+image+"-") {
			t.Errorf("run %s of treatment %s", run.RunID, run.TreatmentID)
		}
		blocks[run.Block] = append(blocks[run.Block], image)
	}
	for block, images := range blocks {
		if slices.Sort(images); fmt.Sprint(images) != "[new new old old]" {
			t.Errorf("block %d has %v", block, images)
		}
	}
	if !r.f.image.IsZero() || r.f.renewals != 9 {
		t.Errorf("the director boots %q after %d renewals", r.f.image, r.f.renewals)
	}
}

// A director that runs another kernel than its image has is not measured.
func TestRunInsistsOnTheKernel(t *testing.T) {
	r := runFake(t, twoKernels, func(f *fakeLab) {
		f.kernels = map[addr.Noun]string{{Kind: addr.Image, Label: "new"}: "6.12-of-new", {Kind: addr.Image, Label: "old"}: "6.1.9"}
	})
	wrong := slices.IndexFunc(r.rec.runs, func(run artifact.Run) bool { return !run.Valid })
	if wrong < 0 {
		t.Fatal("all runs are valid")
	}
	run := r.rec.runs[wrong]
	want := "director.lb runs Linux 6.12-of-old, but its image has Linux 6.1.9"
	if run.Factors["kernel"] != "old" || !slices.Contains(run.PreconditionFailures, want) {
		t.Errorf("%s: %q", run.TreatmentID, run.PreconditionFailures)
	}
	for _, run := range r.rec.runs {
		if run.Factors["kernel"] == "new" && !run.Valid {
			t.Errorf("%s: %q", run.TreatmentID, run.PreconditionFailures)
		}
	}
}
