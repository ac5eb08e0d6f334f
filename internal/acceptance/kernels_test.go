package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// twoKernels is a lab whose director boots one of two kernels for each run, and by
// itself a third time the built-in image.
func twoKernels(lab, prefix string) string {
	return `
image "old" { kernel = "linux-image-cloud-amd64" }

image "new" { kernel = "linux-image-6.12-cloud-amd64" }
` + threeBackends(lab, prefix, `
experiment "kernels" {
  service    = service.s
  clients    = client.probe
  iterations = 2
  seed       = 5
  factor "kernel" { values = [image.old, image.new] }
  factor "scheduler" { values = ["rr", "sh"] }
  load "lvslab" {
    queries = 60
    sockets = 20
  }
}
`)
}

// TestAccLongKernels runs one study over two kernels. What the rows tell of the
// kernel was read from the director of each run; the same ports are decided on the
// same way by both; and afterwards the director is the declared one again.
func TestAccLongKernels(t *testing.T) {
	vmtest.NeedLong(t)
	s := newSite(t, twoKernels("kernels", "198.19.73"))
	r := s.must(0, 8*time.Minute, "apply", "--keep", "lab.hcl")
	if want := "director.front boots for its runs image.old Linux 6.1."; !strings.Contains(r.stdout, want) {
		t.Errorf("the plan lacks %q: %s", want, r)
	}
	a := s.latest("kernels")
	declared := s.must(0, time.Minute, "exec", "director.front", "--", "uname", "-r")
	ran := kernelsRan(t, a)
	if len(a.Runs()) != 8 || !strings.HasPrefix(ran["new"], "6.12.") || !strings.HasPrefix(ran["old"], "6.1.") {
		t.Fatalf("%d runs on %v", len(a.Runs()), ran)
	}
	if strings.TrimSpace(declared.stdout) != ran["old"] {
		t.Errorf("the director is declared with the built-in image and runs %s", declared.stdout)
	}
	if m := a.Manifest(); m.Versions.GuestKernels["image.new"] != ran["new"] || m.Isolation["kernels"] != "restore" {
		t.Errorf("manifest: %+v, isolation %v", m.Versions, m.Isolation)
	}
	s.must(0, time.Minute, "plan", "--keep", "--detailed-exitcode", "lab.hcl")
}

// kernelsRan returns the kernel that the runs of each image had, and sees that each
// run is valid, was decided on as planned, and was made by a director of its own.
func kernelsRan(t *testing.T, a *artifact.Artifact) map[string]string {
	t.Helper()
	ran, decisions := map[string]string{}, map[string]string{}
	for _, run := range a.Runs() {
		image, scheduler := run.Factors["kernel"], run.Factors["scheduler"]
		if !run.Valid || run.AnswersOK != 60 || run.KernelDiffers != "" {
			t.Errorf("%s: %+v", run.RunID, run)
		}
		if before := ran[image]; before != "" && before != run.Kernel {
			t.Errorf("%s runs on %s, another of %s on %s", run.RunID, run.Kernel, image, before)
		}
		ran[image] = run.Kernel
		list := renewedOf(t, a, run.RunID)
		if len(list) != 1 || list[0].Image != "image."+image || list[0].Template == "" {
			t.Errorf("%s: made anew %+v", run.RunID, list)
		}
		ports := decisionsOf(t, a, run).Ports
		if before := decisions[scheduler]; before != "" && before != ports {
			t.Errorf("%s decides %s on %s, another run %s", scheduler, ports, image, before)
		}
		decisions[scheduler] = ports
	}
	return ran
}
