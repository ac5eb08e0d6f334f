package images

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// tool is a program of the machine that a build runs.
type tool struct{ name, debian string }

// tools are all that Build needs. xz is asked for only when a kernel package
// brings compressed modules, which Debian 12 does not.
var tools = []tool{
	{"mmdebstrap", "mmdebstrap"},
	{"apt-config", "apt"},
	{"dpkg-deb", "dpkg"},
	{"mksquashfs", "squashfs-tools"},
	{"depmod", "kmod"},
}

// sbinDirs are searched besides PATH: a user's PATH lacks them on Debian.
var sbinDirs = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// lookTool finds a program in PATH or the system's directories.
func lookTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range sbinDirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// Preflight checks what a build needs besides the network: the programs, a
// package source for the recipe's suite, and free space in the cache. The
// errors are joined, one for each thing that lacks. `lvslab doctor` shows them;
// Build asks by itself.
func Preflight(recipe Recipe, cacheDir string) error {
	var errs []error
	if err := checkTools(tools); err != nil {
		errs = append(errs, err)
	}
	if _, err := sourcesFor(aptDir, recipe); err != nil {
		errs = append(errs, err)
	}
	if err := checkSpace(existing(cacheDir), "an image", spaceNeeded); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// existing returns the nearest directory at or above path that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// checkTools names all missing programs at once, so that one apt-get call cures it.
func checkTools(list []tool) error {
	var names, packages []string
	for _, t := range list {
		if _, err := lookTool(t.name); err != nil {
			names = append(names, t.name)
			packages = append(packages, t.debian)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return diag.Fail(exec.ErrNotFound, "Programs for building images are missing",
		"Run `apt-get install -y --no-install-recommends "+strings.Join(packages, " ")+"` as root.",
		"%s not found in PATH or %s", strings.Join(names, ", "), strings.Join(sbinDirs, ", "))
}
