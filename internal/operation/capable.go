package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// capable reports schedulers that the kernels of the directors do not have, as
// far as their images tell: before anything is made. An image that is not built
// yet, or was built before it was noted, tells nothing; then the kernel is asked.
func (a *applying) capable() error {
	t := a.study.topology
	var errs []error
	for _, s := range t.Services {
		errs = append(errs, a.schedulerThere(s, s.Scheduler, s.Noun, "scheduler", s.Range))
	}
	for _, x := range t.Experiments {
		if s, ok := t.Service(x.Service); ok {
			errs = append(errs, a.capableOf(x, s))
		}
	}
	return errors.Join(errs...)
}

// capableOf judges the schedulers of an experiment in each image that its director
// boots.
func (a *applying) capableOf(x lang.Experiment, s lang.Service) error {
	var errs []error
	varied := false
	for i, f := range x.Factors {
		if f.Name != "scheduler" {
			continue
		}
		varied = true
		for _, v := range f.Values {
			if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
				errs = append(errs, a.schedulerIn(x, s, v.AsString(), fmt.Sprintf("factor[%d].values", i), f.Range))
			}
		}
	}
	if !varied && len(x.Kernels()) > 0 { // the service's own, on kernels that only its runs have
		errs = append(errs, a.schedulerIn(x, s, s.Scheduler, "", x.Range))
	}
	return errors.Join(errs...)
}

// schedulerIn judges one scheduler in each kernel that the experiment's runs have.
func (a *applying) schedulerIn(x lang.Experiment, s lang.Service, name, arg string, block diag.Range) error {
	kernels := x.Kernels()
	if len(kernels) == 0 {
		return a.schedulerThere(s, name, x.Noun, arg, block)
	}
	var errs []error
	for _, n := range kernels {
		if img := a.guestIn(n).image; lacks(img, name) {
			f := diag.Fail(nil, "Scheduler not in the guest kernel", a.remedyFor(n, name, "take "+n.String()+" out of the factor \"kernel\""),
				"%s wants %q. %s has Linux %s, which has %s.", x.Noun, name, n, img.KernelRelease, strings.Join(img.Schedulers, ", "))
			errs = append(errs, at(f, a.study.topology.Place(x.Noun, arg, block), x.Noun))
		}
	}
	return errors.Join(errs...)
}

// schedulerThere judges one scheduler in the image that the director is declared
// with.
func (a *applying) schedulerThere(s lang.Service, name string, n addr.Noun, arg string, block diag.Range) error {
	t := a.study.topology
	director, ok := t.Machine(s.Director)
	if !ok {
		return nil
	}
	img := a.guestOf(director).image
	if !lacks(img, name) {
		return nil
	}
	remedy := a.remedyFor(director.Image, name, "give "+s.Director.String()+` an image with kernel = "linux-image-6.12-cloud-amd64"`)
	f := diag.Fail(nil, "Scheduler not in the guest kernel", remedy, "%s wants %q. %s runs Linux %s, which has %s.",
		n, name, s.Director, img.KernelRelease, strings.Join(img.Schedulers, ", "))
	return at(f, t.Place(n, arg, block), n)
}

// lacks reports whether an image is known not to have a scheduler.
func lacks(img guestImage, scheduler string) bool {
	return len(img.Schedulers) > 0 && !slices.Contains(img.Schedulers, scheduler)
}

// remedyFor says how a kernel gets a scheduler; otherwise is what to do about a package.
func (a *applying) remedyFor(image addr.Noun, scheduler, otherwise string) string {
	if i, own := a.study.topology.ImageNamed(image); own && i.OwnKernel() {
		return "Use another one, or build the kernel with CONFIG_IP_VS_" + strings.ToUpper(scheduler) + "=m and install its modules."
	}
	return "Use another one, or " + otherwise + "."
}
