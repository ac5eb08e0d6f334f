package acceptance

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/vmtest"
	"github.com/lvslab/lvslab/plan/state"
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

// TestAccLongKernelsResumed kills lvslab while the director boots the kernel of a run.
// The state says which; a plan, beside the study and after the kill, says that the study
// has booted it. The next apply makes the director as declared and goes on with the runs
// that are missing, and the result holds together.
func TestAccLongKernelsResumed(t *testing.T) {
	vmtest.NeedLong(t)
	s := newSite(t, twoKernels("cutkernels", "198.19.75"))
	cmd, out, _ := s.start("apply", "--keep", "--auto-approve", "lab.hcl")
	poll(t, 5*time.Minute, "the director never boots another kernel", func() bool {
		rows, _ := filepath.Glob(filepath.Join(s.dir, "results", "*", "*.partial", "raw", "*", "renewed.json"))
		return len(rows) > 0 && s.directorBoots("cutkernels", "debian-12+6.12-cloud-amd64")
	})
	const lent = "director.front boots image.new for a run of experiment.kernels"
	poll(t, time.Minute, "a plan beside the study never says what its director boots", func() bool {
		return strings.Contains(s.must(0, time.Minute, "plan", "--keep", "lab.hcl").stdout, lent)
	})
	poll(t, time.Minute, "the director boots no other kernel any more", func() bool {
		return s.directorBoots("cutkernels", "debian-12+6.12-cloud-amd64")
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if !s.directorBoots("cutkernels", "debian-12+6.12-cloud-amd64") {
		t.Fatalf("the state of a killed run: %s", out)
	}
	if r := s.must(0, time.Minute, "plan", "--keep", "lab.hcl"); !strings.Contains(r.stdout, "continuing") || !strings.Contains(r.stdout, lent) || strings.Contains(r.stdout, "will be replaced") {
		t.Errorf("the plan after the kill: %s", r)
	}
	s.must(0, 5*time.Minute, "apply", "--keep", "lab.hcl") // which needs no approval: nothing of anybody's is replaced
	a := s.latest("cutkernels")
	ran := kernelsRan(t, a)
	if len(a.Runs()) != 8 || len(a.Manifest().Sessions) != 2 || !strings.HasPrefix(ran["new"], "6.12.") || !strings.HasPrefix(ran["old"], "6.1.") {
		t.Errorf("%d runs in %d sessions on %v", len(a.Runs()), len(a.Manifest().Sessions), ran)
	}
	if !s.directorBoots("cutkernels", "debian-12-") {
		t.Error("the director does not boot what it is declared with")
	}
	s.must(0, time.Minute, "verify", a.Dir())
	if page, err := a.ReadFile("report.html"); err != nil || !strings.Contains(string(page), "kernel=new") {
		t.Errorf("the report has no treatment of the other kernel: %v", err)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// directorBoots reports whether the state holds a sound director whose root is of an
// image whose name begins so.
func (s *site) directorBoots(lab, image string) bool {
	st, err := state.Read(filepath.Join(s.dir, ".lvslab", lab))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(st.Resources, func(r state.Resource) bool {
		return r.Addr.String() == "director.front/domain" && r.Status == state.OK && strings.Contains(string(r.Attrs), "/images/"+image)
	})
}
