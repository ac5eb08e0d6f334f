package server

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// moduleCompressed is MODULE_INIT_COMPRESSED_FILE, <linux/module.h>, since 5.17.
const moduleCompressed = 4

// LoadModuleFile gives one .ko file to the kernel. A module that is there
// already is no error.
func LoadModuleFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if filepath.Ext(file) != ".ko" {
		flags = moduleCompressed
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return &fs.PathError{Op: "load module", Path: file, Err: err}
	}
	return nil
}

// loadModule loads a kernel module by name with what it depends on. The kernel
// lacking it is an error with CodeUnsupported that names the module. Doing what
// modprobe does without its fork and exec saves about 30 ms under emulation.
func loadModule(_ context.Context, name string) error {
	if _, err := os.Stat("/sys/module/" + strings.ReplaceAll(name, "-", "_")); err == nil {
		return nil
	}
	dir := "/lib/modules/" + kernelRelease()
	files, err := moduleFiles(dir, name)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := LoadModuleFile(path.Join(dir, f)); err != nil {
			return fail(proto.CodeUnsupported, name, "kernel module: %v", err)
		}
	}
	return nil
}

// moduleFiles returns the files to load, in order, relative to dir; none when
// the module is built in.
func moduleFiles(dir, name string) ([]string, error) {
	if line, ok := findModule(path.Join(dir, "modules.dep"), name); ok {
		file, deps, _ := strings.Cut(line, ":")
		files := []string{file}
		for _, d := range strings.Fields(deps) {
			files = append([]string{d}, files...) // modules.dep lists the nearest first
		}
		return files, nil
	}
	if _, ok := findModule(path.Join(dir, "modules.builtin"), name); ok {
		return nil, nil
	}
	return nil, fail(proto.CodeUnsupported, name, "the guest's kernel %s has no module %s", path.Base(dir), name)
}

// findModule returns the line of a list whose first path is that module.
func findModule(list, name string) (string, bool) {
	f, err := os.Open(list)
	if err != nil {
		return "", false
	}
	defer f.Close()
	name = strings.ReplaceAll(name, "-", "_")
	for lines := bufio.NewScanner(f); lines.Scan(); {
		file, _, _ := strings.Cut(lines.Text(), ":")
		base, _, _ := strings.Cut(path.Base(file), ".ko")
		if strings.ReplaceAll(base, "-", "_") == name {
			return lines.Text(), true
		}
	}
	return "", false
}
