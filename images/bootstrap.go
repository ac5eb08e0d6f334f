package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// bootstrap lets mmdebstrap resolve, download and unpack the recipe's packages
// into dir/root, without running anything of them, and returns the versions of
// what it unpacked. dir is empty and exists.
func bootstrap(ctx context.Context, recipe Recipe, dir string) (root string, packages map[string]string, err error) {
	src, err := sourcesFor(aptDir, recipe)
	if err != nil {
		return "", nil, err
	}
	mirrors, err := src.write(dir)
	if err != nil {
		return "", nil, fmt.Errorf("write the package sources: %w", err)
	}
	conf, err := aptConf(ctx)
	if err != nil {
		return "", nil, err
	}
	status, prefs := filepath.Join(dir, "status"), filepath.Join(dir, "preferences")
	confPath := filepath.Join(dir, "apt.conf")
	for path, text := range map[string]string{status: installedStatus(recipe), prefs: preferences(recipe), confPath: conf} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", nil, err
		}
	}
	root = filepath.Join(dir, "root")
	// chrootless works for everybody, for nothing has to be run or owned in
	// the unpacked root; as root mmdebstrap advises against it.
	mode := "chrootless"
	if os.Geteuid() == 0 {
		mode = "root"
	}
	// The paths reach the hook by environment: it is run by a shell.
	hook := `cp "$LVSLAB_STATUS" "$1/var/lib/dpkg/status" && mkdir -p "$1/etc/apt/preferences.d" && cp "$LVSLAB_PREFERENCES" "$1/etc/apt/preferences.d/lvslab"`
	args := []string{
		"--mode=" + mode, "--variant=extract", "--format=directory", "--architectures=" + recipe.Arch,
		// keep the archives: their names tell the versions
		"--skip=cleanup/apt", "--aptopt=" + confPath, "--setup-hook=" + hook,
		"--include=" + strings.Join(recipe.Packages, ","), recipe.Suite, root,
	}
	cmd := command(ctx, "mmdebstrap", append(args, mirrors...)...)
	cmd.Env = append(cmd.Env, "LVSLAB_STATUS="+status, "LVSLAB_PREFERENCES="+prefs, "TMPDIR="+dir,
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", recipe.Epoch))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", nil, bootstrapFailure(ctx, recipe, string(out), err)
	}
	packages, err = unpackedVersions(filepath.Join(root, "var/cache/apt/archives"))
	return root, packages, err
}

// command prepares a program of the machine: found in the system's directories
// too, with an untranslated locale, and ended with all its children when ctx is.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path, err := lookTool(name)
	if err != nil {
		path = name // exec reports it; checkTools has said more before
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":"+strings.Join(sbinDirs, ":"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// installedStatus is a dpkg status in which the dependencies that the guest
// does not run stand as installed, so that apt leaves them out. "Multi-Arch:
// allowed" lets them satisfy `perl:any` too.
func installedStatus(recipe Recipe) string {
	var b strings.Builder
	for _, name := range recipe.Without {
		fmt.Fprintf(&b, "Package: %s\nStatus: install ok installed\nArchitecture: %s\nMulti-Arch: allowed\n"+
			"Version: 9999:0\nMaintainer: lvslab\nDescription: left out of the guest\n\n", name, recipe.Arch)
	}
	return b.String()
}

// preferences makes Debian's own packages win over those of further sources
// that a machine may have for the same suite, and lets a further suite give the
// kernel and nothing else: the first record that fits decides, those that name
// packages before those that do not, see apt_preferences(5).
func preferences(recipe Recipe) string {
	text := "Package: *\nPin: release o=Debian\nPin-Priority: 990\n"
	if recipe.KernelSuite == "" {
		return text
	}
	return fmt.Sprintf("Package: linux-image-*\nPin: release n=%[1]s\nPin-Priority: 995\n\n"+
		"Package: *\nPin: release n=%[1]s\nPin-Priority: 100\n\n", recipe.KernelSuite) + text
}

// aptSettings are the settings of the machine that decide whether its sources
// can be reached. mmdebstrap starts with none of them.
var aptSettings = []string{
	"Acquire::http::", "Acquire::https::", "Acquire::Retries", "Acquire::Check-Valid-Until", "Acquire::Check-Date",
	"Acquire::Max-ValidTime", "Acquire::Min-ValidTime", "Acquire::ForceIPv4", "Acquire::ForceIPv6",
	"Acquire::AllowInsecureRepositories", "Acquire::AllowWeakRepositories", "Acquire::By-Hash",
}

// aptConf takes those settings over, and points to the machine's access data,
// which apt itself then reads.
func aptConf(ctx context.Context) (string, error) {
	cmd := command(ctx, "apt-config", "dump")
	out, err := cmd.Output()
	if err != nil {
		return "", diag.Fail(err, "The settings of apt cannot be read", "Run `apt-config dump` and mend what it reports.", "")
	}
	return filterAptConf(string(out)), nil
}

func filterAptConf(dump string) string {
	var b strings.Builder
	for _, line := range strings.Split(dump, "\n") {
		for _, prefix := range aptSettings {
			if strings.HasPrefix(strings.ToLower(line), strings.ToLower(prefix)) {
				b.WriteString(line + "\n")
			}
		}
	}
	fmt.Fprintf(&b, "Dir::Etc::netrc \"%s/auth.conf\";\nDir::Etc::netrcparts \"%s/auth.conf.d\";\n", aptDir, aptDir)
	return b.String()
}

// unpackedVersions reads names and versions from the archives' file names:
// name_version_arch.deb, the version's colon written as %3a.
func unpackedVersions(dir string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, path := range paths {
		if name, version, ok := parseArchiveName(filepath.Base(path)); ok {
			versions[name] = version
		}
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("mmdebstrap unpacked no package archive (looked in %s)", dir)
	}
	return versions, nil
}

// parseArchiveName splits apt's name of a package archive.
func parseArchiveName(file string) (name, version string, ok bool) {
	base, isDeb := strings.CutSuffix(file, ".deb")
	parts := strings.Split(base, "_")
	if !isDeb || len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return "", "", false
	}
	return parts[0], strings.ReplaceAll(strings.ReplaceAll(parts[1], "%3a", ":"), "%7e", "~"), true
}

// causes are known reasons for mmdebstrap to fail, by what it prints. The
// first match is reported.
var causes = []struct {
	pattern         *regexp.Regexp
	summary, remedy string
}{
	{regexp.MustCompile(`(?i)no space left on device`), "The disk is full",
		"Free some space, or set LVSLAB_CACHE to a directory on a larger disk."},
	{regexp.MustCompile(`E: Unable to locate package linux-image|Package '?linux-image\S* has no installation candidate`), "The package sources have no such kernel",
		"apt-cache search '^linux-image' lists those that they have. Debian takes a version's package away when it has a newer one: linux-image-6.12-cloud-amd64 and the like always mean the newest."},
	{regexp.MustCompile(`E: Unable to locate package|has no installation candidate`), "A package of the image is not in the package sources",
		"Check that the sources of the machine hold Debian's main component, and run `apt-get update`."},
	{regexp.MustCompile(`does not have a Release file`), "The package sources have no such release",
		"Check the release that the kernel is to come from, and that the mirror of the machine holds it."},
	{regexp.MustCompile(`NO_PUBKEY|EXPKEYSIG|is not signed|public key is not available|not yet valid|Release file .* expired`), "The package sources are not trusted",
		"Run `apt-get update` and mend what it reports: keys come with the package debian-archive-keyring, and the clock must be right."},
	{regexp.MustCompile(`Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Connection (timed out|refused|failed)|Network is unreachable|Failed to fetch|Some index files failed to download`),
		"The package sources cannot be reached",
		"Check the network and the proxy settings with `apt-get update`, then try again. An image that is in the cache needs no network."},
	{regexp.MustCompile(`unmet dependencies|held broken packages`), "The packages of the image do not fit together",
		"Run `apt-get update`; when the sources mix releases, remove those of the others."},
}

// bootstrapFailure finds the cause in the output of mmdebstrap.
func bootstrapFailure(ctx context.Context, recipe Recipe, output string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("unpack the packages of %s: %w", recipe.Name, errors.Join(ctx.Err(), err))
	}
	for _, c := range causes {
		if c.pattern.MatchString(output) {
			return diag.Fail(err, c.summary, c.remedy, "mmdebstrap for %s said:\n%s", recipe.Name, telling(output, c.pattern))
		}
	}
	return diag.Fail(err, "The packages of the image could not be unpacked",
		"Read what mmdebstrap said; `apt-get update` shows whether the sources work.", "mmdebstrap for %s said:\n%s", recipe.Name, tail(output, 12))
}

// telling returns up to six lines that matter: the matching ones, then errors.
func telling(output string, pattern *regexp.Regexp) string {
	var lines []string
	seen := map[string]bool{}
	for _, isWanted := range []func(string) bool{pattern.MatchString, func(l string) bool { return strings.HasPrefix(l, "E: ") }} {
		for _, line := range strings.Split(output, "\n") {
			line = strings.TrimSpace(line)
			if isWanted(line) && !seen[line] && len(lines) < 6 {
				seen[line] = true
				lines = append(lines, "  "+line)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func tail(output string, n int) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "  " + strings.Join(lines, "\n  ")
}

// run runs a program and puts the end of what it printed into the error.
func run(ctx context.Context, cmd *exec.Cmd, what string) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
		return fmt.Errorf("%s: %w\n%s", what, err, tail(out.String(), 8))
	}
	return nil
}
