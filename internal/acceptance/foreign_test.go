package acceptance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/provider/libvirt"
)

// foreign is a libvirtd as a distribution starts it, with its defaults: QEMU is
// another user's, sockets and images lie in this machine's file system. It lives
// in namespaces of its own, so that a test needs and disturbs no other one.
type foreign struct {
	dir  string
	pid  int // of its PID 1
	conn *libvirt.Conn
}

// foreignScript gets the directory for all that it keeps.
const foreignScript = `
mount --make-rprivate /
mount -t proc proc /proc
mkdir "$1/etc" "$1/sock"
cp -a /etc/. "$1/etc/"
mkdir -p "$1/etc/libvirt"
grep -q libvirt-qemu "$1/etc/passwd" || echo "libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin" >> "$1/etc/passwd"
grep -q libvirt-qemu "$1/etc/group" || echo "libvirt-qemu:x:64055:" >> "$1/etc/group"
cat > "$1/etc/libvirt/libvirtd.conf" <<EOF
unix_sock_dir = "$1/sock"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:$1/libvirtd.log"
EOF
cat > "$1/etc/libvirt/qemu.conf" <<EOF
stdio_handler = "file"
security_driver = "none"
namespaces = []
cgroup_controllers = []
EOF
mount --bind "$1/etc" /etc
for d in /run/libvirt /var/lib /var/cache /var/log; do mount -t tmpfs lvslab-test "$d"; done
ip link set lo up
libvirtd -p "$1/pid" &
wait
`

func startForeign(t *testing.T) *foreign {
	t.Helper()
	const mountPoint = "/run/libvirt" // absent where no libvirtd was ever started
	if err := os.Mkdir(mountPoint, 0o755); err == nil {
		t.Cleanup(func() { os.Remove(mountPoint) })
	}
	f := &foreign{dir: t.TempDir()}
	cmd := exec.Command("sh", "-ec", foreignScript, "sh", f.dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.pid = cmd.Process.Pid
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(f.dir, "libvirtd.log")); t.Failed() && err == nil {
			t.Logf("libvirtd: %s", log)
		}
		_ = cmd.Process.Kill() // and with it all that is inside
		_ = cmd.Wait()
	})
	poll(t, 30*time.Second, "libvirtd does not answer", func() (up bool) {
		conn, err := libvirt.Dial(context.Background(), f.uri())
		f.conn = conn
		return err == nil
	})
	t.Cleanup(func() { f.conn.Close() })
	return f
}

func (f *foreign) uri() string {
	return "qemu+unix:///system?socket=" + filepath.Join(f.dir, "sock", "libvirt-sock")
}

// hide has an empty directory in the place of one, for this libvirtd alone.
func (f *foreign) hide(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("nsenter", "-t", fmt.Sprint(f.pid), "-m", "mount", "-t", "tmpfs", "lvslab-test", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// has lists the domains and networks.
func (f *foreign) has(t *testing.T) []string {
	t.Helper()
	var list []string
	err := f.conn.Do(context.Background(), 10*time.Second, func(l *rpc.Libvirt) error {
		doms, _, err := l.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		nets, _, err := l.ConnectListAllNetworks(1, 0)
		for _, d := range doms {
			list = append(list, "domain "+d.Name)
		}
		for _, n := range nets {
			list = append(list, "network "+n.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// empty demands that nothing of labs and templates is left on it, and no
// directory of their sockets but those that were there before.
func (f *foreign) empty(t *testing.T, sockets []string, when string) {
	t.Helper()
	if left := f.has(t); len(left) > 0 {
		t.Errorf("%s: left on libvirt: %v", when, left)
	}
	if left := subtract(socketDirs(t), sockets); len(left) > 0 {
		t.Errorf("%s: left: %v", when, left)
	}
}

func socketDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/run/lvslab/*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return d == "/run/lvslab/registry" })
}

// TestAccForeignLibvirt: on a libvirt of the user's own machines are cloned as
// well, through a FIFO beside their sockets, from a template that is made there.
// Killed while making it or while feeding a machine, lvslab leaves things that
// sweep and destroy find. Where no template can be made, machines are booted.
func TestAccForeignLibvirt(t *testing.T) {
	needLab(t)
	f := startForeign(t)
	before := socketDirs(t)
	s := newSite(t, clients("abroad", "198.19.28", 1)+fmt.Sprintf("\nprovider \"libvirt\" { uri = %q }\n", f.uri()))
	if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil { // its QEMU is another user's
		t.Fatal(err)
	}
	cache := linked(t, s)
	ownRegistry(t, s)

	cmd, out, errOut := s.start("apply", "lab.hcl")
	poll(t, time.Minute, "no machine for a template", func() bool { return len(s.pids("guest=lvslab-template")) > 0 })
	killNine(t, cmd)
	if left := f.has(t); len(left) != 2 {
		t.Errorf("killed while making a template: left on libvirt %v\n%s\n%s", left, out, errOut)
	}
	r := s.must(0, time.Minute, "sweep", "--auto-approve")
	if files, unfinished := templatesIn(t, cache); len(files)+len(unfinished) > 0 {
		t.Errorf("left in the cache: %v %v, %s", files, unfinished, r)
	}
	f.empty(t, before, "after a sweep")

	cmd, out, errOut = s.start("apply", "lab.hcl")
	poll(t, 2*time.Minute, "no machine is being restored", func() bool {
		pipes, _ := filepath.Glob("/run/lvslab/*/*.pipe")
		return len(pipes) > 0
	})
	killNine(t, cmd)
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	f.empty(t, before, fmt.Sprintf("killed while feeding, destroyed\n%s\n%s", out, errOut))

	r = s.must(0, 2*time.Minute, "apply", "lab.hcl")
	if !strings.Contains(r.stdout, "1 machines cloned") || r.stderr != "" {
		t.Errorf("apply: %s", r)
	}
	s.must(0, time.Minute, "exec", "client.c[0]", "--", "true")
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	f.empty(t, before, "after destroy")

	files, _ := templatesIn(t, cache)
	for _, file := range files {
		if err := os.RemoveAll(filepath.Dir(file)); err != nil {
			t.Fatal(err)
		}
	}
	f.hide(t, filepath.Join(cache, "templates"))
	r = s.must(0, 2*time.Minute, "apply", "lab.hcl")
	if !strings.Contains(r.stderr, "Booting instead of restoring") || !strings.Contains(r.stdout, "1 machines started") {
		t.Errorf("apply where libvirt sees no cache: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	f.empty(t, before, "booted and destroyed")
}
