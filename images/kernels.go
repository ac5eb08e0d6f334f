package images

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// DefaultKernel is the Debian package of the kernel that machines run when
// nobody names another: Linux 6.1 in Debian 12.
const DefaultKernel = "linux-image-cloud-amd64"

// kernelPackage is a Debian package with a kernel: Debian's own start with
// linux-image-, and names hold lower-case letters, digits, +, - and . only
// (Debian Policy 5.6.1). Behind a slash stands the release to take it from, as
// in `apt-get install`.
var kernelPackage = regexp.MustCompile(`^linux-image-[a-z0-9][a-z0-9+.-]*(/[a-z0-9][a-z0-9.-]*)?$`)

// ForKernel returns the recipe of the usual guest with another kernel. The name
// is that of a Debian package, such as "linux-image-6.12-cloud-amd64", or with
// the release to take it from, "linux-image-cloud-amd64/bookworm-backports";
// "" and [DefaultKernel] give [Debian12] itself. What [Build] makes of it has
// the kernel's real version as [Image.KernelRelease], and a key of its own.
// A name that cannot be one is a [*diag.Failure]; whether the package exists
// is known only to Build.
func ForKernel(name string) (Recipe, error) {
	if name == "" || name == DefaultKernel {
		return Debian12, nil
	}
	if !kernelPackage.MatchString(name) {
		return Recipe{}, diag.Fail(nil, "Not a kernel package",
			`Write the name of a Debian package, such as "linux-image-6.12-cloud-amd64"; apt-cache search '^linux-image' lists them.`,
			"%q is not the name of a Debian package with a kernel", name)
	}
	pkg, release, _ := strings.Cut(name, "/")
	r := Debian12
	r.Name = fmt.Sprintf("%s+%s", r.Name, strings.ReplaceAll(strings.TrimPrefix(name, "linux-image-"), "/", "+"))
	r.Packages = slices.Clone(r.Packages)
	r.Packages[slices.Index(r.Packages, DefaultKernel)] = pkg
	if release != r.Suite {
		r.KernelSuite = release
	}
	return r, nil
}

// kernelPackageOf returns the package of the recipe's kernel.
func (r Recipe) kernelPackageOf() string {
	for _, p := range r.Packages {
		if strings.HasPrefix(p, "linux-image-") {
			return p
		}
	}
	return ""
}
