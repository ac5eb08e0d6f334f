package lang

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

const (
	// kernelPackages begin the names of Debian's packages with a kernel.
	kernelPackages = "linux-image-"
	// builtinKernel is the package of the kernel that machines without an image
	// boot: Linux 6.1 in Debian 12.
	builtinKernel = "linux-image-cloud-amd64"
)

func (e *evaluator) image(b *block) Image {
	r := e.reader(b, nil)
	i := Image{Noun: r.noun, Range: b.rng, Kernel: r.text("kernel", ""), Modules: r.text("modules", ""), Initrd: r.text("initrd", ""), Disk: r.text("disk", "")}
	switch {
	case b.args["disk"] != nil:
		e.wholeDisk(r, i)
		return i
	case b.args["kernel"] == nil:
		r.complain("", "Argument missing", "Add kernel = … or disk = … to the block.", "%s needs a kernel or a disk.", r.noun)
		return i
	case e.defects.arg(r.noun, "kernel"):
		return i
	}
	if !isPath(i.Kernel) && !strings.HasPrefix(i.Kernel, kernelPackages) {
		r.complain("kernel", "Not a kernel", `Write a Debian package such as "linux-image-6.12-cloud-amd64", or a path that starts with "./", "../" or "/".`,
			"kernel of %s is %q.", r.noun, i.Kernel)
		return i
	}
	for arg, path := range map[string]string{"modules": i.Modules, "initrd": i.Initrd} {
		if path != "" && !i.OwnKernel() {
			r.complain(arg, "A package brings its own", "Leave "+arg+" out, or name a kernel of your own by its path.",
				"%s of %s belongs to a kernel of your own, but kernel is the package %q.", arg, r.noun, i.Kernel)
		}
	}
	return i
}

// wholeDisk checks an image that is a disk: it has a kernel of its own.
func (e *evaluator) wholeDisk(r *reader, i Image) {
	if i.Disk == "" && !e.defects.arg(r.noun, "disk") {
		r.complain("disk", "Not a disk", "Write the path of a qcow2 or raw image, such as \"./debian-12-generic-amd64.qcow2\".", "disk of %s is empty.", r.noun)
	}
	for _, arg := range []string{"kernel", "modules", "initrd"} {
		if r.b.args[arg] != nil {
			r.complain(arg, "A disk brings its own", "Leave "+arg+" out: the machine boots what is on the disk. Or leave disk out.",
				"%s of %s stands beside disk = %q, which has a boot loader and a kernel.", arg, r.noun, i.Disk)
		}
	}
}

// isPath tells a file from a package: a path says by its start that it is one.
func isPath(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

// images: each is there for a machine, and a scheduler that the built-in kernel
// lacks needs another one.
func (r *rules) images() {
	used := map[addr.Noun]bool{}
	for _, m := range r.t.Machines {
		used[m.Image] = true
	}
	for _, x := range r.t.Experiments {
		for _, n := range x.Kernels() {
			used[n] = true
		}
	}
	for _, i := range r.t.Images {
		if !used[i.Noun] && !r.d.noun(i.Noun) {
			r.warn(i.Noun, "", i.Range, "Image without a machine", "Write image = "+i.Noun.String()+" in a machine, name it in a factor \"kernel\", or leave the block out.", "No machine boots %s.", i.Noun)
		}
	}
	r.restoredDisks()
	for _, s := range r.t.Services {
		if s.Scheduler == laterScheduler {
			r.lacking(s, s.Noun, "scheduler", s.Range, "scheduler of "+s.Noun.String())
		}
	}
	for _, x := range r.t.Experiments {
		r.schedulersOf(x)
	}
}

// schedulersOf: a scheduler that an experiment runs is in each kernel that it runs.
func (r *rules) schedulersOf(x Experiment) {
	s, ok := r.t.Service(x.Service)
	if !ok {
		return
	}
	wants, arg, block, what := s.Scheduler, "", x.Range, "scheduler of "+s.Noun.String()
	for i, f := range x.Factors {
		if f.Name != "scheduler" {
			continue
		}
		wants = ""
		for _, v := range f.Values {
			if v.Type() == cty.String && v.IsKnown() && !v.IsNull() && v.AsString() == laterScheduler {
				wants = laterScheduler
			}
		}
		arg, block, what = fmt.Sprintf("factor[%d].values", i), f.Range, `factor "scheduler" of `+x.Noun.String()
	}
	if wants != laterScheduler {
		return
	}
	kernels := x.Kernels()
	if len(kernels) == 0 && arg != "" { // what the service declares is judged there
		r.lacking(s, x.Noun, arg, block, what)
	}
	for _, n := range kernels {
		if i, ok := r.t.ImageNamed(n); ok && i.Kernel == builtinKernel {
			r.fail(x.Noun, arg, block, "Scheduler not in the guest kernel", "Use another one, or take "+n.String()+` out of the factor "kernel".`,
				"%s: Debian builds %q from 6.11 on, and %s has Linux 6.1.", what, laterScheduler, n)
		}
	}
}

// restoredDisks: a machine with a disk of the user's is always booted.
func (r *rules) restoredDisks() {
	for _, m := range r.t.Machines {
		if i, ok := r.t.ImageOf(m); ok && i.Disk != "" && m.Boot == bootRestore {
			r.fail(m.Noun, "boot", m.Range, "Cannot be restored", "Leave boot out: a machine with a disk of its own is always booted.",
				"boot of %s is %q, and %s is a disk.", m.Noun, m.Boot, i.Noun)
		}
	}
}

// lacking reports the scheduler that the built-in kernel lacks.
func (r *rules) lacking(s Service, n addr.Noun, arg string, block diag.Range, what string) {
	director, ok := r.t.Machine(s.Director)
	if !ok || !director.Image.IsZero() {
		return
	}
	r.fail(n, arg, block, "Scheduler not in the guest kernel", fmt.Sprintf(`Use another one, or give %s an image with kernel = "linux-image-6.12-cloud-amd64".`, s.Director),
		"%s: Debian builds %q from 6.11 on, and %s runs Linux 6.1.", what, laterScheduler, s.Director)
}

// Kernels are the images that the experiment's director boots, one after the other:
// the values of its factor "kernel", none without one.
func (x Experiment) Kernels() []addr.Noun {
	var out []addr.Noun
	for _, f := range x.Factors {
		if f.Name != FactorKernel {
			continue
		}
		for _, v := range f.Values {
			if n, err := addr.ParseNoun(v.AsString()); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
