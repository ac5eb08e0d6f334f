package acceptance

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// plant builds testdata/planted against the headers of a kernel and puts the module
// in the place of the one under root/usr/lib/modules.
func plant(t *testing.T, root, release string) {
	t.Helper()
	headers := "/usr/src/linux-headers-" + release
	if _, err := os.Stat(headers); err != nil {
		t.Fatalf("%v: install linux-headers-%s, or build the image anew when the headers are of a newer kernel", err, release)
	}
	source := t.TempDir()
	if err := os.CopyFS(source, os.DirFS("testdata/planted")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-C", headers, "M="+source, "modules").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	module, err := os.ReadFile(filepath.Join(source, "ip_vs_wlc.ko"))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(root, "usr/lib/modules", release, "kernel/net/netfilter/ipvs/ip_vs_wlc.ko")
	if _, err := os.Stat(at); err != nil {
		t.Fatal(err) // else the kernel would load another one
	}
	if err := os.WriteFile(at, module, 0o644); err != nil {
		t.Fatal(err)
	}
}

// regression runs examples/regression/regression.sh in the site's directory.
func (s *site) regression(limit time.Duration, kernels ...string) (code int, said string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	script, err := filepath.Abs("../../examples/regression/regression.sh")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "sh", append([]string{script}, kernels...)...)
	cmd.Dir, cmd.WaitDelay = s.dir, 10*time.Second
	cmd.Env = append(os.Environ(), "LVSLAB="+program(s.t), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestAccLongPlanted compares Debian's kernel with itself, and then with one whose wlc
// does not look at weights: the first pair is alike, and in the second wlc and nothing
// else decides otherwise.
func TestAccLongPlanted(t *testing.T) {
	vmtest.NeedLong(t)
	dropOwnImages(t)
	old, release := packagedKernel(t)
	changed, _ := packagedKernel(t)
	plant(t, filepath.Join(changed, "root"), release)
	kernel := func(dir string) string { return filepath.Join(dir, "vmlinuz") + "," + filepath.Join(dir, "root") }

	s := newSite(t, "")
	if code, said := s.regression(10*time.Minute, kernel(old), kernel(changed)); code != 1 || !strings.Contains(said, "5 of 6 treatments in both results are alike") || !strings.Contains(said, "differ") {
		t.Errorf("exit %d: %s", code, said)
	}
	differs := map[string]bool{}
	for _, r := range s.latest("regression/new/regression").Runs() {
		if r.KernelDiffers != "" {
			differs[r.TreatmentID] = true
		}
	}
	if len(differs) != 1 || !differs["scheduler=wlc"] {
		t.Errorf("treatments in which the kernel is not as the model: %v", differs)
	}
	if code, said := s.regression(10*time.Minute, kernel(old), kernel(old)); code != 0 || !strings.Contains(said, "6 of 6 treatments in both results are alike") {
		t.Errorf("a kernel and itself: exit %d: %s", code, said)
	}
}
