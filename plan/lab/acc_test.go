package lab_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// up are the labs below a directory that the machine's registry knows, whose
// hypervisor still runs.
func (e elsewhere) up() []string {
	e.t.Helper()
	entries, err := hypervisor.List(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(e.dir)
	if err != nil {
		e.t.Fatal(err)
	}
	var out []string
	for _, x := range entries {
		if x.Status == hypervisor.Running && strings.HasPrefix(x.LabDir, real) {
			out = append(out, x.Lab)
		}
	}
	return out
}

// gone waits until no lab is up: the kernel ends a hypervisor's processes in its time.
func (e elsewhere) gone(after string) {
	e.t.Helper()
	for end := time.Now().Add(10 * time.Second); len(e.up()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("after %s: still up: %v", after, e.up())
		}
	}
}

// TestAccEnds: however a test ends, its lab goes with it, and the next one starts.
func TestAccEnds(t *testing.T) {
	vmtest.Need(t)
	e := newElsewhere(t)
	for _, c := range []struct {
		mode, timeout string
		code          int
		want          []string
		takenDown     bool // by the test itself
	}{
		{"pass", "5m", 0, []string{"the guest runs Linux"}, true},
		{"fail", "5m", 1, []string{"the guest runs Linux", "gone, verified"}, true},
		{"panic", "5m", 2, []string{"panic: as asked"}, true},
		{"slow", "28s", 1, []string{"The test's time is nearly up", "go test -timeout", "gone, verified"}, true},
		{"hang", "20s", 2, []string{"panic: test timed out after 20s"}, false},
		{"exit", "5m", 7, []string{"left its lab behind: it is taken down first", "TestLab (process "}, false},
		{"pass", "5m", 0, []string{"left its lab behind", "gone, verified"}, true},
	} {
		began := time.Now()
		code, out := e.run(c.mode, "-test.v", "-test.run", "^TestLab$", "-test.timeout", c.timeout)
		t.Logf("%s: %.1f s", c.mode, time.Since(began).Seconds())
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", c.mode, code, c.code, out)
		}
		e.want(out, c.want...)
		if c.takenDown && len(e.up()) > 0 {
			t.Errorf("after %s: %v is up\n%s", c.mode, e.up(), out)
		}
		e.gone(c.mode)
	}
}

// TestAccKeptLab: a lab that was kept for a look outlives its test, and the next
// test says so and begins without it.
func TestAccKeptLab(t *testing.T) {
	vmtest.Need(t)
	e := newElsewhere(t)
	t.Cleanup(func() { e.run("pass", "-test.run", "^TestLab$") })
	code, out := e.run("keep", "-test.v", "-test.run", "^TestLab$")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	e.want(out, "the lab is kept for a look", "lvslab destroy --auto-approve "+e.dir)
	if up := e.up(); len(up) != 1 {
		t.Fatalf("up: %v\n%s", up, out)
	}
	code, out = e.run("pass", "-test.v", "-test.run", "^TestLab$")
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	e.want(out, "left its lab behind", "gone, verified")
	e.gone("pass")
}
