package conformance

import (
	"runtime"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// Replay carries a script out on the kernel that runs, as root. That an event is
// refused is a result; an error means that nothing is known.
func Replay(text string) (out proto.ReplayResult, err error) {
	s, err := ipvsmodel.ParseScript(strings.NewReader(text))
	if err != nil {
		return out, err
	}
	err = inSpace(func(k *kernel) error {
		out = record(observable(s), k)
		return nil
	})
	return out, err
}

// inSpace runs f on a thread that ends with it, as does its namespace.
func inSpace(f func(*kernel) error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		turn.Lock()
		defer turn.Unlock()
		k, err := newKernel()
		if err == nil {
			if err = f(k); err == nil {
				err = k.err
			}
			k.close()
		}
		done <- err
	}()
	return <-done
}
