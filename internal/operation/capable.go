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
		s, ok := t.Service(x.Service)
		for i, f := range x.Factors {
			if !ok || f.Name != "scheduler" {
				continue
			}
			for _, v := range f.Values {
				if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
					errs = append(errs, a.schedulerThere(s, v.AsString(), x.Noun, fmt.Sprintf("factor[%d].values", i), f.Range))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (a *applying) schedulerThere(s lang.Service, name string, n addr.Noun, arg string, block diag.Range) error {
	t := a.study.topology
	director, ok := t.Machine(s.Director)
	if !ok {
		return nil
	}
	img := a.guestOf(director).image
	if len(img.Schedulers) == 0 || slices.Contains(img.Schedulers, name) {
		return nil
	}
	remedy := "Use another one, or give " + s.Director.String() + ` an image with kernel = "linux-image-6.12-cloud-amd64".`
	if i, own := t.ImageNamed(director.Image); own && i.OwnKernel() {
		remedy = "Use another one, or build the kernel with CONFIG_IP_VS_" + strings.ToUpper(name) + "=m and install its modules."
	}
	f := diag.Fail(nil, "Scheduler not in the guest kernel", remedy, "%s wants %q. %s runs Linux %s, which has %s.",
		n, name, s.Director, img.KernelRelease, strings.Join(img.Schedulers, ", "))
	return at(f, t.Place(n, arg, block), n)
}
