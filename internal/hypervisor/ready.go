package hypervisor

import (
	"errors"

	"github.com/lvslab/lvslab/internal/diag"
)

// Ready reports what keeps this machine from holding a lab at all: no root, a
// missing program. It is the part of [Doctor] that costs nothing, for asking
// before every apply. Each failing check is one [*diag.Failure] of the joined
// error.
func Ready() error {
	var errs []error
	for _, c := range append([]Check{checkRoot()}, checkPrograms()...) {
		if c.Level == Fail && !builder(c.Name) {
			errs = append(errs, diag.Fail(nil, "This machine cannot hold a lab", c.Remedy, "%s: %s", c.Name, c.Detail))
		}
	}
	return errors.Join(errs...)
}

// builder reports whether a program is needed for building an image only: a
// cached one does without.
func builder(name string) bool {
	for _, n := range needed {
		if n.name == name {
			return n.use == "builds the guest image"
		}
	}
	return false
}
