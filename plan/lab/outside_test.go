package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// outside is the test binary of another module that uses this package, built once.
var outside = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lab-outside")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "outside.test"), buildOutside(dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		path, _ := outside()
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

var built bool

// buildOutside compiles testdata/outside as a module of its own, outside of this
// one, with nothing from the network: what it needs was needed to build us.
func buildOutside(dir string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(ours), "\n")
	mod := "module example.org/outside\n" + rest +
		fmt.Sprintf("\nrequire github.com/lvslab/lvslab v0.0.0\n\nreplace github.com/lvslab/lvslab => %s\n", root)
	text, err := os.ReadFile("testdata/outside/outside_test.go")
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{"go.mod": []byte(mod), "go.sum": sums, "outside_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "test", "-c", "-o", "outside.test", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// elsewhere runs the other module's tests in a directory.
type elsewhere struct {
	t   *testing.T
	dir string
}

func newElsewhere(t *testing.T) elsewhere {
	t.Helper()
	built = true
	if _, err := outside(); err != nil {
		t.Fatalf("a module outside of this one does not compile with it: %v", err)
	}
	return elsewhere{t, t.TempDir()}
}

// run returns the exit code and what was printed.
func (e elsewhere) run(mode string, args ...string) (int, string) {
	e.t.Helper()
	program, _ := outside()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = e.dir, append(os.Environ(), "MODE="+mode)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		e.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (e elsewhere) want(out string, all ...string) {
	e.t.Helper()
	for _, s := range all {
		if !strings.Contains(out, s) {
			e.t.Errorf("%q is missing in\n%s", s, out)
		}
	}
}

// TestOutside: another module compiles with the package, names all of it, and is
// told what is wrong with a topology.
func TestOutside(t *testing.T) {
	e := newElsewhere(t)
	code, out := e.run("", "-test.v", "-test.run", "^TestBroken$")
	if code != 0 {
		t.Error(out)
	}
	e.want(out, "broken.hcl", `"nowhere"`, "--- PASS: TestBroken")
}

// TestHolderIsNoTest: a test binary that is started as a hypervisor's process
// becomes one, and never comes to its TestMain, which would end with 99.
func TestHolderIsNoTest(t *testing.T) {
	e := newElsewhere(t)
	for _, arg := range []string{"__holder-init", "__holder"} {
		code, out := e.run("", arg, "lineage")
		if code != 1 || strings.Contains(out, "PASS") {
			t.Errorf("%s: exit code %d\n%s", arg, code, out)
		}
	}
	if code, _ := e.run("", "__other"); code != 99 {
		t.Errorf("another argument: exit code %d", code)
	}
}
