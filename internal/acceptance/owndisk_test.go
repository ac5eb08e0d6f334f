package acceptance

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// ownDiskVariable names a qcow2 image that the tests take in place of the one that they
// build in two minutes: Debian with cloud-init and bind9.
const ownDiskVariable = "LVSLAB_TEST_DISK"

// distribution is the tree of a Debian system with cloud-init, as people prepare
// it: a tar file.
func distribution(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root.tar")
	tool(t, "mmdebstrap", "--quiet", "--variant=minbase", "--include=systemd-sysv,udev,dbus,kmod,iproute2,cloud-init,linux-image-cloud-amd64,bind9",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		`--customize-hook=echo "/dev/vda1 / ext4 defaults 0 1" > "$1/etc/fstab"`,
		`--customize-hook=mkdir -p "$1/boot/grub"; printf "%s\n" "serial --unit=0" "terminal_output serial" "set root=(hd0,msdos1)" "linux /vmlinuz root=/dev/vda1 ro console=ttyS0" "initrd /initrd.img" boot > "$1/boot/grub/grub.cfg"`,
		"bookworm", root)
	return root
}

// bootable makes a qcow2 disk with GRUB and one file system of a tree. Nothing is
// mounted: GRUB's second stage lies in the gap before the first partition, where
// its first one looks for it.
func bootable(t *testing.T, tree, disk string) {
	t.Helper()
	const mib, size = 1 << 20, 1200
	dir := t.TempDir()
	raw, core := filepath.Join(dir, "raw"), filepath.Join(dir, "core.img")
	tool(t, "truncate", "-s", "1200M", raw)
	tool(t, "mke2fs", "-q", "-t", "ext4", "-E", "offset=1048576", "-d", tree, raw, "1227776k")
	tool(t, "grub-mkimage", "-O", "i386-pc", "-o", core, "-p", "(hd0,msdos1)/boot/grub",
		"biosdisk", "part_msdos", "ext2", "linux", "normal", "serial", "terminal", "configfile")
	boot := read(t, "/usr/lib/grub/i386-pc/boot.img")
	part := boot[446:462]
	copy(part, "\x80\xfe\xff\xff\x83\xfe\xff\xff") // active, Linux, no cylinders
	binary.LittleEndian.PutUint32(part[8:], mib/512)
	binary.LittleEndian.PutUint32(part[12:], (size-1)*(mib/512))
	clear(boot[462:510])
	copy(boot[510:], "\x55\xaa")
	f, err := os.OpenFile(raw, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(boot, read(t, core)...)); err != nil {
		t.Fatal(err)
	}
	tool(t, "qemu-img", "convert", "-O", "qcow2", raw, disk)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// ownDisk returns a bootable image with cloud-init.
func ownDisk(t *testing.T) string {
	t.Helper()
	if disk := os.Getenv(ownDiskVariable); disk != "" {
		return disk
	}
	dir := t.TempDir()
	tree, disk := filepath.Join(dir, "tree"), filepath.Join(dir, "mine.qcow2")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	tool(t, "tar", "-C", tree, "-xf", distribution(t))
	bootable(t, tree, disk)
	return disk
}

// diskOn gives the machine of a block of [small] a disk of its own.
func diskOn(block, topology, disk string) string {
	return "image \"mine\" { disk = \"" + disk + "\" }\n" +
		strings.Replace(topology, block+" {", block+" {\n  image  = image.mine\n  memory = \"512MiB\"", 1)
}

// TestAccLongOwnDisk runs the smallest study with a backend that boots a
// distribution from a disk image: the image stays as it is, and its kernel is
// told.
func TestAccLongOwnDisk(t *testing.T) {
	vmtest.NeedLong(t)
	disk := ownDisk(t)
	before, err := os.Stat(disk)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, diskOn(`backend "web"`, small("owndisk", "198.19.71", matrix("x", "flush", 1, `"rr", "sh"`, "4")), disk))
	r := s.must(0, 12*time.Minute, "apply", "lab.hcl")
	if !strings.Contains(r.stdout, filepath.Base(disk)) {
		t.Errorf("the plan does not tell the disk: %s", r)
	}
	res := s.latest("owndisk")
	if runs := res.Runs(); len(runs) != 2 || !runs[0].Valid || !runs[1].Valid || runs[0].AnswersOK != 120 {
		t.Errorf("runs: %+v", runs)
	}
	if k := res.Manifest().Versions.GuestKernels; !strings.Contains(k["image.mine"], ".") {
		t.Errorf("the kernels of the guests: %v", k)
	}
	after, err := os.Stat(disk)
	if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		t.Errorf("the disk was written to: %v, %v, %v", before, after, err)
	}
}

// TestAccLongDiskThatDoesNotBoot gives a backend a disk on which there is nothing to boot.
func TestAccLongDiskThatDoesNotBoot(t *testing.T) {
	vmtest.NeedLong(t)
	disk := filepath.Join(t.TempDir(), "void.raw")
	sector := make([]byte, 1<<20)
	copy(sector, "\xfa\xf4\xeb\xfd") // cli; hlt; and again
	copy(sector[510:], "\x55\xaa")
	if err := os.WriteFile(disk, sector, 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, diskOn(`backend "web"`, small("voiddisk", "198.19.72", ""), disk))
	r := s.must(1, 10*time.Minute, "apply", "--keep", "lab.hcl")
	for _, want := range []string{"The disk of backend.web does not boot", "void.raw", "Booting from Hard Disk", "boot loader for BIOS"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not said: %s", want, r)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// TestAccLongOwnDiskDirector boots the director from a disk. What IPVS can do there is
// read from the kernel that runs: a scheduler that it lacks is told before the first
// run, those that it has come from the disk's own modules, and a director that is made
// anew for each run is booted again.
func TestAccLongOwnDiskDirector(t *testing.T) {
	vmtest.NeedLong(t)
	disk := ownDisk(t)
	lab := func(experiments string) string {
		return diskOn(`director "front"`, threeBackends("diskdirector", "198.19.77", experiments), disk)
	}
	s := newSite(t, lab(matrix("x", "flush", 1, `"rr", "twos"`, "4")))
	r := s.must(1, 8*time.Minute, "apply", "--keep", "lab.hcl")
	for _, want := range []string{"The guest kernel lacks ip_vs_twos", "experiment.x wants twos", "Linux 6.1.", "Take the scheduler out", "director.front"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not said: %s", want, r)
		}
	}
	s.write("lab.hcl", lab(matrix("x", "flush", 1, `"rr", "sh"`, "4")+matrix("y", "restore", 1, `"wrr"`, "4")))
	r = s.must(0, 10*time.Minute, "apply", "--keep", "lab.hcl")
	if _, line, _ := strings.Cut(r.stdout, filepath.Base(disk)); !strings.HasPrefix(strings.TrimLeft(line, " 0123456789abcdef"), ", Linux 6.1.") {
		t.Errorf("the plan does not know the kernel that was booted before: %s", r)
	}
	a := s.latest("diskdirector")
	kernel := a.Manifest().Versions.GuestKernels["image.mine"]
	boots := map[string]bool{}
	for _, run := range a.Runs() {
		d := decisionsOf(t, a, run)
		if !run.Valid || run.AnswersOK != 120 || d.Decisions == 0 {
			t.Errorf("%s of %s: %+v, %+v", run.RunID, run.Experiment, run, d)
		}
		made := renewedOf(t, a, run.RunID)
		if run.Experiment == "x" && len(made) > 0 {
			t.Errorf("%s: made anew %+v", run.RunID, made)
		}
		for _, m := range made {
			boots[m.Node+m.BootID] = true
		}
	}
	if len(a.Runs()) != 3 || len(boots) != 1 {
		t.Errorf("%d runs, boots of the director: %v", len(a.Runs()), boots)
	}
	if got := strings.TrimSpace(s.must(0, time.Minute, "exec", "director.front", "--", "uname", "-r").stdout); got != kernel || !strings.HasPrefix(got, "6.1.") {
		t.Errorf("the director runs %q, the result says %q", got, kernel)
	}
	modules := s.must(0, time.Minute, "exec", "director.front", "--", "cat", "/proc/modules").stdout
	for _, want := range []string{"ip_vs ", "ip_vs_wrr "} {
		if !strings.Contains(modules, want) {
			t.Errorf("the director has no module %s: %s", want, modules)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// withoutCloudInit makes two raw images of a disk: one whose cloud-init is there and
// off, and one that has none. The file systems are changed without a mount.
func withoutCloudInit(t *testing.T, disk string) (off, none string) {
	t.Helper()
	dir := t.TempDir()
	change := func(name string, requests ...string) string {
		raw := filepath.Join(dir, name)
		tool(t, "qemu-img", "convert", "-O", "raw", disk, raw)
		script := filepath.Join(dir, name+".requests")
		if err := os.WriteFile(script, []byte(strings.Join(requests, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "debugfs", "-w", "-f", script, raw+"?offset=1048576").CombinedOutput()
		if err != nil || strings.Contains(string(out), "not found") {
			t.Fatalf("debugfs: %v: %s", err, out)
		}
		return raw
	}
	off = change("off.raw", "write /dev/null /etc/cloud/cloud-init.disabled")
	return off, change("none.raw", "rm /usr/bin/cloud-init", "rm /usr/lib/systemd/system-generators/cloud-init-generator")
}

var silence = regexp.MustCompile(`nothing on its console for\s+(\S+)\s+and`)

// TestAccLongDiskWithoutCloudInit gives two machines disks that boot, and on which
// nothing starts the agent. Both are told, with what the console said last, and long
// before the time that a disk has at most.
func TestAccLongDiskWithoutCloudInit(t *testing.T) {
	vmtest.NeedLong(t)
	off, none := withoutCloudInit(t, ownDisk(t))
	top := diskOn(`backend "web"`, small("nocloud", "198.19.78", ""), off)
	top = "image \"bare\" { disk = \"" + none + "\" }\n" +
		strings.Replace(top, `client "probe" {`, "client \"probe\" {\n  image  = image.bare\n  memory = \"512MiB\"", 1)
	s := newSite(t, top)
	began := time.Now()
	r := s.must(1, 11*time.Minute, "apply", "--keep", "lab.hcl")
	t.Logf("told after %s", time.Since(began).Round(time.Second))
	if silent := silence.FindAllStringSubmatch(r.stderr, -1); len(silent) != 2 {
		t.Errorf("how long it waited is not said: %s", r)
	} else {
		for _, m := range silent { // 45 s, and three times as long on a host with much to do
			if d, err := time.ParseDuration(m[1]); err != nil || d > 135*time.Second {
				t.Errorf("it waited for %s: %v", m[1], err)
			}
		}
	}
	for _, want := range []string{"cloud-init did not run on backend.web", "off.raw", "cloud-init did not run on client.probe", "none.raw", "login:", "Install cloud-init", "docs/images.md"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not said: %s", want, r)
		}
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// TestAccDiskRefused: what cannot be a disk is told at the plan, with its place.
func TestAccDiskRefused(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "gone.qcow2")
	s := newSite(t, diskOn(`backend "web"`, small("nodisk", "198.19.73", ""), disk))
	r := s.must(1, time.Minute, "plan", "lab.hcl")
	for _, want := range []string{"The disk cannot be read", "gone.qcow2", "lab.hcl line 1"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not said: %s", want, r)
		}
	}
	if err := os.WriteFile(disk, []byte("this is no disk"), 0o644); err != nil {
		t.Fatal(err)
	}
	r = s.must(1, time.Minute, "plan", "lab.hcl")
	if !strings.Contains(r.stderr, "Not a disk image") || !strings.Contains(r.stderr, "lab.hcl line 1") {
		t.Errorf("it is not refused: %s", r)
	}
}
