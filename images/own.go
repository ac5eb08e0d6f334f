package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// OwnKernel is a kernel that no package brings. The digest of a recipe covers
// what it consists of and not where it lies.
type OwnKernel struct {
	// Release is what the kernel calls itself.
	Release string
	// Contents is a SHA-256 over the kernel, the initramfs and those modules that
	// go into the guest.
	Contents string

	image, initrd string
	// modules is …/lib/modules/RELEASE, or "" when they lie in the tree that the
	// kernel was built in.
	modules, tree string
}

// ForOwnKernel returns the recipe of the usual guest with a kernel of the
// user's own: a bzImage, or the tree in which one was built. modules is where
// `make modules_install INSTALL_MOD_PATH=…` put its modules, or the directory
// that is named after the kernel; a tree has them itself. initrd, when not "",
// is an archive that the kernel unpacks before lvslab's own. What cannot become
// a guest is a [*diag.Failure]; what of it can only be known by booting, is not.
func ForOwnKernel(ctx context.Context, kernel, modules, initrd string) (Recipe, error) {
	own := &OwnKernel{initrd: initrd}
	if err := own.find(kernel, modules); err != nil {
		return Recipe{}, err
	}
	k, err := own.open()
	if err != nil {
		return Recipe{}, err
	}
	if err := errors.Join(k.guestCapable(), own.configured()); err != nil {
		return Recipe{}, err
	}
	r := Debian12
	r.Name, r.Own = r.Name+"+own", own
	r.Packages = slices.DeleteFunc(slices.Clone(r.Packages), func(p string) bool { return p == DefaultKernel })
	r.Modules = k.present(r.Modules)
	r.BootModules = k.present(r.BootModules)
	if own.Contents, err = own.sum(ctx, k, append(slices.Clone(r.Modules), r.BootModules...)); err != nil {
		return Recipe{}, err
	}
	return r, nil
}

// bootImage is where a kernel's tree has what can be booted; arch/x86_64 is a
// link that its build makes.
var bootImage = regexp.MustCompile(`^(.*)/arch/x86(?:_64)?/boot/bzImage$`)

// find locates kernel and modules.
func (o *OwnKernel) find(kernel, modules string) error {
	info, err := os.Stat(kernel)
	if err != nil {
		return diag.Fail(err, "The kernel cannot be read", pathRemedy, "%s", kernel)
	}
	o.image = kernel
	if info.IsDir() {
		o.tree, o.image = kernel, filepath.Join(kernel, "arch/x86/boot/bzImage")
		if _, err := os.Stat(o.image); err != nil {
			return diag.Fail(err, "The kernel is not built", "Run `make bzImage modules` in the tree.", "%s is a directory without arch/x86/boot/bzImage", kernel)
		}
	} else if m := bootImage.FindStringSubmatch(filepath.ToSlash(kernel)); m != nil {
		o.tree = m[1]
	}
	if o.Release, err = kernelRelease(o.image); err != nil {
		return err
	}
	if modules == "" {
		if o.tree == "" {
			return diag.Fail(nil, "Modules missing", `Name the directory of "make modules_install INSTALL_MOD_PATH=…" with modules = …, or the tree that the kernel was built in with kernel = ….`,
				"%s alone does not tell what is compiled into it", kernel)
		}
		return nil
	}
	o.tree = ""
	for _, dir := range []string{"lib/modules/" + o.Release, "usr/lib/modules/" + o.Release, o.Release} {
		if o.modules = filepath.Join(modules, dir); isDir(o.modules) {
			return nil
		}
	}
	if o.modules = filepath.Clean(modules); isDir(o.modules) && filepath.Base(o.modules) == o.Release {
		return nil
	}
	return diag.Fail(fs.ErrNotExist, "No modules of this kernel", "Install those of the same build: make modules_install INSTALL_MOD_PATH="+modules+".",
		"%s is Linux %s, and there is no %s", kernel, o.Release, filepath.Join(modules, "lib/modules", o.Release))
}

const pathRemedy = "Check the path: it counts from the directory of the topology."

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// open reads which modules there are and what is compiled in.
func (o *OwnKernel) open() (*kernelTree, error) {
	k := newKernelTree(o.Release, o.image, cmp.Or(o.tree, o.modules))
	k.tree = o.tree != ""
	err := k.scanAny()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Fail(err, "The kernel's modules are not complete", "Build the kernel to its end (make bzImage modules), then `make modules_install`.",
			"%s does not tell what is compiled into Linux %s", k.dir, o.Release)
	}
	return k, err
}

// scanAny is scan, of a tree too, where the modules are those of modules.order.
func (k *kernelTree) scanAny() error {
	if !k.tree {
		return k.scan()
	}
	text, err := os.ReadFile(filepath.Join(k.dir, "modules.order"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without modules has none
		return fmt.Errorf("read the kernel's modules: %w", err)
	}
	for _, line := range strings.Fields(string(text)) {
		file := installed(line)
		k.files[moduleName(file)] = file
	}
	return k.readBuiltin()
}

// present leaves of a recipe's list what the kernel has.
func (k *kernelTree) present(list []string) []string {
	var out []string
	for _, want := range list {
		dir, isDir := strings.CutSuffix(want, "/")
		found := !isDir && k.has(want)
		for _, file := range k.files {
			found = found || isDir && strings.HasPrefix(file, "kernel/"+dir+"/")
		}
		if found {
			out = append(out, want)
		}
	}
	return out
}

// has reports whether something is a module or compiled in.
func (k *kernelTree) has(name string) bool {
	name = moduleName(name)
	return k.files[name] != "" || k.builtin[name]
}

// sum identifies what the guest gets of the kernel: the kernel, the initramfs
// and the modules of a recipe's lists with all that they need.
func (o *OwnKernel) sum(ctx context.Context, k *kernelTree, list []string) (string, error) {
	h := sha256.New()
	for _, path := range []string{o.image, o.initrd} {
		if path == "" {
			continue
		}
		sum, _, err := sumFile(path)
		if err != nil {
			return "", diag.Fail(err, "The initramfs cannot be read", pathRemedy, "%s", path)
		}
		fmt.Fprintln(h, sum)
	}
	names, err := k.selectModules(list)
	if err != nil {
		return "", err
	}
	if names, err = k.loadOrder(ctx, names); err != nil {
		return "", diag.Fail(err, "The kernel's modules are not complete", "Build and install all of them: make modules modules_install.", "Linux %s in %s", o.Release, k.dir)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(h, "%x  %s\n", sha256.Sum256(k.infos[name].text), k.files[name])
	}
	builtin := slices.Sorted(maps.Keys(k.builtin))
	fmt.Fprintln(h, strings.Join(builtin, " "))
	return hex.EncodeToString(h.Sum(nil)), nil
}
