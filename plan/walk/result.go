package walk

import (
	"errors"
	"fmt"

	"github.com/lvslab/lvslab/internal/diag"
)

// ErrStopped is wrapped when steps were not begun because the walk was stopped.
var ErrStopped = errors.New("stopped")

// Err returns everything that went wrong as one error, nil when the whole plan
// was carried out. Skipped steps are not listed: the failure that they were
// skipped for is. Use [diag.From] to get the single messages.
func (r Result) Err() error {
	var errs []error
	for _, f := range r.Failures {
		errs = append(errs, f)
	}
	if r.Unrecorded != nil {
		errs = append(errs, r.Unrecorded)
	} else if r.NotBegun > 0 {
		errs = append(errs, diag.Fail(diag.Told(ErrStopped), "stopped before the end", "the same command goes on from here; lvslab destroy takes everything down",
			"%d of %d steps were not begun", r.NotBegun, r.NotBegun+r.Done+r.Skipped+len(r.Failures)))
	}
	return errors.Join(errs...)
}

// Error names the resource and what was done to it.
func (f Failure) Error() string { return fmt.Sprintf("%s of %s: %v", f.Op, f.Addr, f.Err) }

// Unwrap returns the failure as one that carries its diagnostic, with the
// resource's address in it.
func (f Failure) Unwrap() error {
	var known *diag.Failure
	if errors.As(f.Err, &known) {
		d := known.Diagnostic
		if d.Address == "" {
			d.Address = f.Addr.String()
		}
		return &diag.Failure{Diagnostic: d, Err: keep{known.Err, f.Err}}
	}
	return &diag.Failure{Err: f.Err, Diagnostic: diag.Diagnostic{
		Summary: string(f.Op) + " failed", Address: f.Addr.String(),
		Remedy: "put right what is named, then run the same command again",
	}}
}

// keep shows the cause's text and unwraps to the whole error.
type keep struct{ cause, whole error }

func (k keep) Error() string {
	if k.cause == nil {
		return ""
	}
	return k.cause.Error()
}

func (k keep) Unwrap() error { return k.whole }
