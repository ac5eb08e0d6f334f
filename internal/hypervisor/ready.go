package hypervisor

import (
	"errors"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// Ready reports what keeps this machine from holding a lab at all: no root, a
// missing program. It is the part of [Doctor] that costs nothing, for asking
// before every apply. Everything that is missing is named at once, with one
// command that installs it.
func Ready() error {
	var errs []error
	if c := checkRoot(); c.Level == Fail {
		errs = append(errs, diag.Fail(nil, "This machine cannot hold a lab", c.Remedy, "%s", c.Detail))
	}
	var missing, packages []string
	for _, n := range needed {
		if _, err := locate(n.name); err == nil || builder(n.name) {
			continue
		}
		missing = append(missing, n.name+" ("+n.use+")")
		if pkg := packageOf[n.name]; !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if len(missing) > 0 {
		errs = append(errs, diag.Fail(nil, "Programs that a lab needs are not installed",
			"Install them: "+installCommand(strings.Join(packages, " ")), "missing: %s", strings.Join(missing, ", ")))
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
