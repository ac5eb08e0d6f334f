package fake

import (
	"errors"
	"sync"

	"github.com/lvslab/lvslab/internal/addr"
)

// Fault is what goes wrong.
type Fault int

// The faults.
const (
	// Fail returns the rule's error without an effect.
	Fail Fault = iota
	// FailHalf has a part of its effect, then returns the rule's error.
	FailHalf
	// FailAfter has its effect, then returns the rule's error.
	FailAfter
	// Hang waits for the context to end and returns its error, without an effect.
	Hang
	// HangHalf has a part of its effect before it hangs.
	HangHalf
	// HangAfter has its effect before it hangs.
	HangAfter
	// Work is no fault: the call has its effect and succeeds, unless it has been
	// cancelled by then.
	Work
	// HangOn does not even listen to the context: it returns when [Provider.Release] is called.
	HangOn
	// CrashBefore calls the provider's Crash function before the effect.
	CrashBefore
	// CrashHalf calls the provider's Crash function in the middle of the effect.
	CrashHalf
	// CrashAfter calls the provider's Crash function after the effect.
	CrashAfter
)

// Rule lets a fault happen at a certain call.
type Rule struct {
	Op   Op            // "" = any
	Addr addr.Resource // zero = any
	// Nth is the call that goes wrong, counted from 1 among those that match; 0
	// = every one of them.
	Nth   int
	Fault Fault
	// Meanwhile, when not nil, is called when the call is under way, before its
	// effect.
	Meanwhile func()
	// Err is what the failing ones return; [ErrScripted] when nil.
	Err error
}

// ErrScripted is the error of a rule that names none.
var ErrScripted = errors.New("failed as scripted")

// ErrCrashed is returned by everything that is tried after a fuse has blown.
var ErrCrashed = errors.New("the process has been killed")

// Fuse kills a process that is played within the test's own: it counts steps, and
// from one of them on nothing has an effect any more. Whoever changes something
// asks it first. What has been written until then is all that a killed process
// leaves, and the walk ends by itself, as every call and every record fails.
type Fuse struct {
	mu    sync.Mutex
	at, n int
}

// NewFuse returns a fuse that blows at that step, counted from 1; never when it
// is 0.
func NewFuse(at int) *Fuse { return &Fuse{at: at} }

// Step counts one step and returns [ErrCrashed] when it must not be made.
func (f *Fuse) Step() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.at > 0 && f.n >= f.at {
		return ErrCrashed
	}
	return nil
}

// Blown reports whether it has.
func (f *Fuse) Blown() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at > 0 && f.n >= f.at
}

// Steps returns how many steps were counted.
func (f *Fuse) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}
