package lab

import (
	"context"
	"os"
	"testing"

	"github.com/lvslab/lvslab/internal/operation"
)

// Start is [Up] for a test: it fails the test when the lab does not come up, and
// takes the lab down when the test and its subtests have ended, also by FailNow or
// a panic. What lvslab does goes to the test's log, artifacts to its
// [testing.TB.ArtifactDir].
//
// The lab's operations end 20 s before the deadline of `go test -timeout` (a
// quarter of the time before, when that is less), which leaves time to take it down. When the process dies all the same, by that timeout,
// os.Exit, a signal or a panic elsewhere, the kernel ends the machines with it.
// What may outlive a test is a lab that was kept by [KeepFailed], and one on a
// libvirt of your own: the next Start of it takes it down first, and that of any
// other lab in the same directory names it in the log.
//
// A lab belongs to one test at a time: another one's Start of it fails, or waits
// with [LockTimeout].
func Start(t testing.TB, topology string, opts ...Option) *Lab {
	t.Helper()
	defaults := []Option{Output(t.Output()), func(o *options) { o.results = "" }}
	l, err := open(topology, append(defaults, opts...))
	if err != nil {
		t.Fatal(err)
	}
	if l.opts.results == "" {
		l.opts.results = t.ArtifactDir()
	}
	l.setDeadline(t)
	ctx, _, cancel := l.within(t.Context())
	defer cancel()
	c, left, err := l.claim(ctx, t)
	if err != nil {
		t.Fatalf("the lab did not come up\n%s", Explain(err))
	}
	up := false
	t.Cleanup(func() { l.end(t, c, up) })
	if left != nil {
		t.Logf("%s left its lab behind: it is taken down first", left)
		if err := l.Destroy(ctx); err != nil {
			t.Fatalf("the lab of %s was not taken down\n%s", left, Explain(err))
		}
	}
	if err := l.bind(); err != nil {
		t.Fatal(err)
	}
	if err := l.up(t.Context()); err != nil {
		t.Fatalf("the lab did not come up\n%s", Explain(err))
	}
	up = true
	return l
}

// claim claims the lab for a test, and names what other tests have left up.
func (l *Lab) claim(ctx context.Context, t testing.TB) (*claim, *owner, error) {
	t.Helper()
	s := l.quiet()
	dir, err := operation.LabDir(s, l.topology)
	if err != nil {
		return nil, nil, explainable(err, s)
	}
	for _, stray := range strays(ctx, dir) {
		t.Log(stray)
	}
	return take(ctx, dir, t.Name(), l.opts.lockTimeout)
}

// bind ties the lab's hypervisor to this process: the pipe's end in it is closed by
// the kernel when the process ends, however it ends. A lab that may be kept is not
// tied.
func (l *Lab) bind() error {
	if l.opts.keepFailed {
		return nil
	}
	var err error
	l.bond.read, l.bond.write, err = os.Pipe()
	return err
}

// unbind lets go of what [Lab.bind] has made.
func (l *Lab) unbind() {
	for _, f := range []*os.File{l.bond.read, l.bond.write} {
		if f != nil {
			f.Close()
		}
	}
}

// end takes the lab down after a test. When it did not come up the test has failed
// for that already, and there may be nothing to take down.
func (l *Lab) end(t testing.TB, c *claim, wasUp bool) {
	t.Helper()
	defer l.unbind()
	gone := false
	if l.opts.keepFailed && t.Failed() {
		t.Logf("the lab is kept for a look; take it down with: lvslab destroy --auto-approve %s", l.name())
	} else {
		err := l.Destroy(context.Background())
		gone = err == nil
		switch {
		case gone:
		case wasUp:
			t.Errorf("the lab was not taken down\n%s", Explain(err))
		default:
			t.Logf("the lab was not taken down\n%s", Explain(err))
		}
	}
	if err := c.release(gone); err != nil {
		t.Error(err)
	}
}
