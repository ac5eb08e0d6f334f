package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAccUnfitHost applies a study where it cannot work. Each reason is found
// before anything is made, and named with its remedy.
func TestAccUnfitHost(t *testing.T) {
	s := newSite(t, small("unfit", "198.19.15", study))
	s.write("huge.hcl", strings.Replace(small("unfit", "198.19.15", study), `client "probe" {`, "client \"probe\" {\n  count  = 64\n  memory = \"64GiB\"", 1))
	for name, c := range map[string]struct {
		prepare string // run in a mount namespace of its own, at the site
		options string
		file    string
		want    []string
	}{
		"too little memory": {":", "", "huge.hcl",
			[]string{"Too little memory for the lab", "client.probe[0] with 65536 MiB", "Give machines less memory"}},
		"missing drivers": {"for d in /usr/lib/*/libvirt/connection-driver; do mount -t tmpfs none $d; done", "", "lab.hcl",
			[]string{"not installed", "libvirt_driver_qemu.so", "apt-get install --no-install-recommends libvirt-daemon-driver-qemu libvirt-daemon"}},
		"read-only results": {"mkdir -p place && mount -t tmpfs -o ro none place", "--results place", "lab.hcl",
			[]string{"Cannot write the results", "read-only file system", "--results DIR"}},
		"full results": {"mkdir -p place && mount -t tmpfs -o size=64k none place", "--results place", "lab.hcl",
			[]string{"Not enough disk space for the results", "0 MiB free", "Free some space"}},
		"JUnit XML in no directory": {":", "--junit nowhere/junit.xml", "lab.hcl",
			[]string{"Cannot write the JUnit XML", "--junit nowhere/junit.xml", "no such file or directory", "Name a file in a directory"}},
		"results that are a file": {":", "--results lab.hcl", "lab.hcl",
			[]string{"Cannot write the results", "lab.hcl: not a directory"}},
		"read-only lab directory": {"mkdir -p place && cp lab.hcl place && mount --bind place place && mount -o remount,bind,ro place && cd place", "--results ..", "lab.hcl",
			[]string{"Cannot write the lab's directory", "read-only file system", "beside it"}},
		"damaged state": {"mkdir -p place/.lvslab/unfit && cp lab.hcl place && cd place && echo '{' >.lvslab/unfit/state.json", "", "lab.hcl",
			[]string{"state file is unreadable", "unfit/state.json", "backups directory"}},
		"newer state": {"mkdir -p place/.lvslab/unfit && cp lab.hcl place && cd place && echo '{\"version\": 99}' >.lvslab/unfit/state.json", "", "lab.hcl",
			[]string{"newer format", "unfit/state.json", "use the lvslab that wrote it"}},
	} {
		cmd := exec.Command("unshare", "--mount", "sh", "-c",
			fmt.Sprintf("%s && exec %s apply %s %s", c.prepare, program(t), c.options, c.file))
		cmd.Dir = s.dir
		unfit(t, name, cmd, c.want)
		if _, err := os.Stat(filepath.Join(s.dir, ".lvslab")); err == nil {
			t.Errorf("%s: a lab's directory was made", name)
		}
		if err := os.RemoveAll(filepath.Join(s.dir, "place")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAccWithoutRoot runs a copy of the program as nobody.
func TestAccWithoutRoot(t *testing.T) {
	s := newSite(t, small("rootless", "198.19.15", ""))
	copied := filepath.Join(t.TempDir(), "lvslab")
	text, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, text, 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	cmd := exec.Command(copied, "apply", "lab.hcl")
	cmd.Dir = s.dir
	cmd.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	for dir := s.dir; dir != "/"; dir = filepath.Dir(dir) { // t.TempDir is for its owner alone
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o5 != 0o5 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o5); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(filepath.Dir(copied), 0o755); err != nil {
		t.Fatal(err)
	}
	unfit(t, "no root", cmd, []string{"This machine cannot hold a lab", "running as user 65534", "with sudo"})
}

// unfit demands exit 1 at once, and texts on stderr.
func unfit(t *testing.T, name string, cmd *exec.Cmd, want []string) {
	t.Helper()
	var errOut strings.Builder
	cmd.Stderr = &errOut
	began := time.Now()
	_ = cmd.Run() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("%s: exit %d\n%s", name, code, &errOut)
	}
	flat := strings.Join(strings.Fields(errOut.String()), " ")
	for _, w := range want {
		if !strings.Contains(flat, w) {
			t.Errorf("%s: %q is not in\n%s", name, w, &errOut)
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("%s: it took %s to find out", name, took)
	}
}
