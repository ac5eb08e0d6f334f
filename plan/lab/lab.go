package lab

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/ui"
)

// Before anything else: a test binary that was started to hold a lab must not run
// its tests again.
func init() { hypervisor.Main() }

// Lab is a lab that is up. Its methods may be called from several goroutines;
// [Lab.Run] and [Lab.Destroy] wait for nobody and fail while another works on the
// lab.
type Lab struct {
	topology string // absolute, or builtin:NAME
	opts     options
	ends     time.Time     // of the test, zero = never
	keep     time.Duration // before that, to take the lab down
	// bond ties the hypervisor to this process; nil = it is not tied.
	bond struct{ read, write *os.File }
}

// Up makes the lab that a topology describes and leaves it up, beyond the end of
// the program; its experiments wait for [Lab.Run]. topology is a file, a directory
// with .hcl files, builtin:NAME, or the name that a [Text] goes by. A lab of that topology that is up already is brought in line with
// it, and what must be replaced for that is.
//
// When it fails, what has been made stays for a look, and the lab is returned
// beside the error, so that it can be destroyed. The error is text for people, see
// [Explain]. When ctx ends, the calls under way are finished and nothing further is
// begun.
func Up(ctx context.Context, topology string, opts ...Option) (*Lab, error) {
	l, err := open(topology, opts)
	if err != nil {
		return nil, err
	}
	return l, l.up(ctx)
}

func open(topology string, opts []Option) (*Lab, error) {
	l := &Lab{topology: topology, opts: options{output: io.Discard, results: "results"}}
	for _, set := range opts {
		set(&l.opts)
	}
	if !strings.HasPrefix(topology, "builtin:") {
		abs, err := filepath.Abs(topology) // the program may go elsewhere
		if err != nil {
			return nil, err
		}
		l.topology = abs
	}
	return l, nil
}

func (l *Lab) up(ctx context.Context) error {
	ctx, abort, cancel := l.within(ctx)
	defer cancel()
	s, end := l.settings(nil)
	defer end()
	s.Abort, s.Bond = abort, l.bond.read
	_, err := operation.Apply(ctx, s, l.topology, operation.ApplyOptions{
		Choices: operation.Choices{Keep: true, Results: l.opts.results},
		NoRuns:  true, AutoApprove: true, Confirm: agreed,
	})
	return explainable(l.inTime(ctx, err), s)
}

// Destroy takes the lab down and proves that nothing of it is left. It is carried
// out to its end even when ctx has ended. A lab that is down already is no error.
func (l *Lab) Destroy(ctx context.Context) error {
	s, end := l.settings(nil)
	defer end()
	_, err := operation.Destroy(context.WithoutCancel(ctx), s, l.topology, operation.DestroyOptions{AutoApprove: true, Confirm: agreed})
	return explainable(err, s)
}

// agreed answers for callers who have said what they want by calling.
func agreed(context.Context, string) (bool, error) { return true, nil }

// settings are those of one operation, whose events go to the output and to also.
// end must be called when the operation has ended.
func (l *Lab) settings(also operation.Events) (s *operation.Settings, end func()) {
	view := ui.NewHuman(l.opts.output, l.opts.output)
	s = l.quiet()
	s.Events = both{view, also}
	return s, view.Close
}

// quiet are the settings of something that tells nobody what it does.
func (l *Lab) quiet() *operation.Settings {
	return &operation.Settings{
		LockTimeout: l.opts.lockTimeout, Variables: l.opts.variables, Environ: os.Environ(),
		Text: l.opts.text, Events: silence{}, Started: time.Now(),
	}
}

// silence is for events that nobody hears.
type silence struct{}

// Emit implements operation.Events.
func (silence) Emit(operation.Event) {}

// name is what lvslab's commands know the lab by: its topology, or its directory
// when that is no file.
func (l *Lab) name() string {
	if l.opts.text != nil {
		if dir, err := operation.LabDir(l.quiet(), l.topology); err == nil {
			return dir
		}
	}
	return l.topology
}

// both tells each event twice.
type both struct{ view, also operation.Events }

// Emit implements operation.Events.
func (b both) Emit(e operation.Event) {
	b.view.Emit(e)
	if b.also != nil {
		b.also.Emit(e)
	}
}
