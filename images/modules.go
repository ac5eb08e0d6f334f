package images

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/lvslab/lvslab/internal/diag"
)

// kernelTree is what a kernel package brought: its release, the image and its
// modules on disk.
type kernelTree struct {
	release string
	image   string              // path of vmlinuz
	dir     string              // …/lib/modules/<release>
	files   map[string]string   // module name → path relative to dir
	builtin map[string]bool     // names compiled into the kernel
	infos   map[string]*modInfo // read so far
	tree    bool                // dir is where the kernel was built, its modules lie without kernel/
}

func newKernelTree(release, image, dir string) *kernelTree {
	return &kernelTree{release: release, image: image, dir: dir, files: map[string]string{}, builtin: map[string]bool{}, infos: map[string]*modInfo{}}
}

// path is where a module lies.
func (k *kernelTree) path(name string) string {
	if k.tree {
		return filepath.Join(k.dir, strings.TrimPrefix(k.files[name], "kernel/"))
	}
	return filepath.Join(k.dir, k.files[name])
}

// modInfo is what a module says about itself in its .modinfo section.
type modInfo struct {
	depends []string // must be loaded before
	softPre []string // should be loaded before, as far as they exist
	text    []byte   // the module, uncompressed
}

// moduleName is the name of the module in a file: dashes and underscores are
// the same to the kernel.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// openKernel finds the one kernel in an unpacked root.
func openKernel(root string) (*kernelTree, error) {
	var dirs []string
	for _, base := range []string{"lib/modules", "usr/lib/modules"} {
		found, _ := filepath.Glob(filepath.Join(root, base, "*"))
		dirs = append(dirs, found...)
	}
	if len(dirs) != 1 {
		return nil, fmt.Errorf("the packages bring %d kernels, wanted is one: %s", len(dirs), strings.Join(dirs, ", "))
	}
	release := filepath.Base(dirs[0])
	k := newKernelTree(release, filepath.Join(root, "boot", "vmlinuz-"+release), dirs[0])
	if _, err := os.Stat(k.image); err != nil {
		return nil, fmt.Errorf("the kernel package brings no image: %w", err)
	}
	return k, k.scan()
}

// scan reads which modules lie in the directory and what is compiled in.
func (k *kernelTree) scan() error {
	err := filepath.WalkDir(filepath.Join(k.dir, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") && d.Type().IsRegular() {
			rel, _ := filepath.Rel(k.dir, p)
			k.files[moduleName(p)] = rel
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the kernel's modules: %w", err)
	}
	return k.readBuiltin()
}

func (k *kernelTree) readBuiltin() error {
	text, err := os.ReadFile(filepath.Join(k.dir, "modules.builtin"))
	if err != nil {
		return fmt.Errorf("read what is built into the kernel: %w", err)
	}
	for _, line := range strings.Fields(string(text)) {
		k.builtin[moduleName(line)] = true
	}
	return nil
}

// selectModules turns a recipe's list of names and directories into module
// names, sorted. What is compiled in is left out; what exists neither way is
// an error that names it.
func (k *kernelTree) selectModules(list []string) ([]string, error) {
	chosen := map[string]bool{}
	var missing []string
	for _, want := range list {
		found := false
		if dir, ok := strings.CutSuffix(want, "/"); ok {
			for name, file := range k.files {
				if strings.HasPrefix(file, "kernel/"+dir+"/") {
					chosen[name], found = true, true
				}
			}
		} else if name := moduleName(want); k.files[name] != "" {
			chosen[name], found = true, true
		} else {
			found = k.builtin[name]
		}
		if !found {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		return nil, diag.Fail(nil, "The kernel lacks modules of the image",
			"Take them out of the recipe, or name a kernel package that has them.",
			"Linux %s has no %s, neither as modules nor compiled in", k.release, strings.Join(missing, ", "))
	}
	names := make([]string, 0, len(chosen))
	for name := range chosen {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

// loadOrder returns the modules with all their dependencies, each after those
// that it needs, otherwise in the order given.
func (k *kernelTree) loadOrder(ctx context.Context, names []string) ([]string, error) {
	var order []string
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name string) error
	visit = func(name string) error {
		if state[name] != 0 || k.builtin[name] {
			return nil // a cycle cannot be loaded anyway; depmod reports it
		}
		state[name] = 1
		info, err := k.info(ctx, name)
		if err != nil {
			return err
		}
		for _, dep := range info.softPre {
			if k.files[dep] != "" {
				if err := visit(dep); err != nil {
					return err
				}
			}
		}
		for _, dep := range info.depends {
			if err := visit(dep); err != nil {
				return fmt.Errorf("%s needs %w", name, err)
			}
		}
		state[name] = 2
		order = append(order, name)
		return nil
	}
	for _, name := range names {
		if err := visit(moduleName(name)); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// info reads a module, uncompressing it where the distribution compresses.
func (k *kernelTree) info(ctx context.Context, name string) (*modInfo, error) {
	if info := k.infos[name]; info != nil {
		return info, nil
	}
	file := k.files[name]
	if file == "" {
		return nil, fmt.Errorf("%s, which Linux %s does not have", name, k.release)
	}
	text, err := readModule(ctx, k.path(name))
	if err != nil {
		return nil, err
	}
	section, err := modinfoSection(text)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", file, err)
	}
	info := parseModinfo(section)
	info.text = text
	k.infos[name] = info
	return info, nil
}

// readModule returns the ELF file in a .ko, .ko.zst or .ko.xz.
func readModule(ctx context.Context, path string) ([]byte, error) {
	switch {
	case strings.HasSuffix(path, ".zst"):
		packed, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		dec, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer dec.Close()
		return dec.DecodeAll(packed, nil)
	case strings.HasSuffix(path, ".xz"):
		if err := checkTools([]tool{{"xz", "xz-utils"}}); err != nil {
			return nil, err
		}
		return command(ctx, "xz", "--decompress", "--stdout", path).Output()
	}
	return os.ReadFile(path)
}

func modinfoSection(module []byte) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	return section.Data()
}

// parseModinfo reads the NUL-separated key=value texts of a .modinfo section
// (include/linux/moduleinfo.h): depends=a,b and softdep=pre: a b post: c.
func parseModinfo(section []byte) *modInfo {
	info := &modInfo{}
	for _, text := range strings.Split(string(section), "\x00") {
		key, value, _ := strings.Cut(text, "=")
		switch key {
		case "depends":
			for _, dep := range strings.Split(value, ",") {
				if dep != "" {
					info.depends = append(info.depends, moduleName(dep))
				}
			}
		case "softdep":
			pre := false
			for _, word := range strings.Fields(value) {
				switch {
				case strings.HasSuffix(word, ":"):
					pre = word == "pre:"
				case pre:
					info.softPre = append(info.softPre, moduleName(word))
				}
			}
		}
	}
	return info
}

// installed is a line of modules.order in a kernel's tree (DIR/NAME.o, until 6.2
// kernel/DIR/NAME.ko) as it is when installed.
func installed(line string) string {
	line = strings.TrimPrefix(line, "kernel/")
	return "kernel/" + strings.TrimSuffix(strings.TrimSuffix(line, ".o"), ".ko") + ".ko"
}

// orderInstalled is the whole list so.
func orderInstalled(text []byte) []byte {
	var b strings.Builder
	for _, line := range strings.Fields(string(text)) {
		fmt.Fprintln(&b, installed(line))
	}
	return []byte(b.String())
}

// installModules puts the modules and depmod's indexes into the tree, below
// usr/lib/modules. The modules are written to dir for depmod to read.
func (k *kernelTree) installModules(ctx context.Context, t tree, names []string, dir string) error {
	base := filepath.Join(dir, "lib/modules", k.release)
	for _, name := range names {
		info, err := k.info(ctx, name)
		if err != nil {
			return err
		}
		file, _, _ := strings.Cut(k.files[name], ".ko")
		p := filepath.Join(base, file+".ko")
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, info.text, 0o644); err != nil {
			return fmt.Errorf("write module %s: %w", name, err)
		}
	}
	for _, name := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		text, err := os.ReadFile(filepath.Join(k.dir, name))
		if errors.Is(err, fs.ErrNotExist) && name != "modules.builtin" {
			continue // a kernel without modules has no order of them
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if k.tree && name == "modules.order" {
			text = orderInstalled(text)
		}
		if err := os.WriteFile(filepath.Join(base, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := run(ctx, command(ctx, "depmod", "-b", dir, k.release), "index the kernel modules"); err != nil {
		return err
	}
	return filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		t["usr/"+filepath.ToSlash(rel)] = entry{mode: 0o644, source: p}
		return nil
	})
}
