package acceptance

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// farHost is a libvirtd of the test's own with an sshd beside it, in namespaces
// whose files and addresses are not those of this machine: another machine, for
// all that lvslab can see.
type farHost struct {
	*foreign
	keys   string // directory of the keys and of sshd's configuration
	hostID ssh.PublicKey
}

const farAddress = "127.0.0.1:2222" // of the namespace's own lo

func startFar(t *testing.T) *farHost {
	t.Helper()
	const mountPoint = "/run/sshd" // sshd demands it
	if err := os.Mkdir(mountPoint, 0o755); err == nil {
		t.Cleanup(func() { os.Remove(mountPoint) })
	}
	f := &farHost{foreign: startForeign(t), keys: t.TempDir()}
	f.hostID = f.key(t, "host")
	f.write(t, "authorized", string(ssh.MarshalAuthorizedKey(f.key(t, "user"))))
	f.write(t, "config", fmt.Sprintf(`ListenAddress %s
HostKey %s/host
AuthorizedKeysFile %s/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
`, farAddress, f.keys, f.keys))
	f.sshd(t)
	return f
}

func (f *farHost) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.keys, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *farHost) key(t *testing.T, name string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, name, string(pem.EncodeToMemory(block)))
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sshd starts it; it ends with the namespaces at the latest.
func (f *farHost) sshd(t *testing.T) {
	t.Helper()
	cmd := exec.Command("nsenter", "-t", fmt.Sprint(f.pid), "-m", "-n", "-p", "-i", "-u", "--", "/usr/sbin/sshd", "-D", "-E", filepath.Join(f.keys, "log"), "-f", filepath.Join(f.keys, "config"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if log, err := os.ReadFile(filepath.Join(f.keys, "log")); t.Failed() && err == nil {
			t.Logf("sshd: %s", log)
		}
	})
	poll(t, 20*time.Second, "sshd does not listen", func() bool {
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", f.pid))
		return err == nil && strings.Contains(string(table), "0100007F:08AE 00000000:0000 0A")
	})
}

// cutOff kills sshd with all its connections.
func (f *farHost) cutOff(t *testing.T) {
	t.Helper()
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", f.pid))
	if err != nil {
		t.Fatal(err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, p := range procs {
		comm, _ := os.ReadFile(filepath.Join(p, "comm"))
		if ns, err := os.Readlink(filepath.Join(p, "ns/pid")); err != nil || ns != mine || strings.TrimSpace(string(comm)) != "sshd" {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(p), &pid); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed < 2 {
		t.Fatalf("%d processes of sshd: nothing was connected", killed)
	}
}

func (f *farHost) farURI() string {
	q := url.Values{"socket": {filepath.Join(f.dir, "sock", "libvirt-sock")}, "keyfile": {filepath.Join(f.keys, "user")}, "known_hosts": {filepath.Join(f.keys, "known_hosts")}}
	return "qemu+ssh://root@" + farAddress + "/system?" + q.Encode()
}

// files lists what lvslab has there, images by their names alone.
func (f *farHost) files(t *testing.T) (images, others []string) {
	t.Helper()
	home := fmt.Sprintf("/proc/%d/root/var/lib/lvslab", f.pid)
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(home, path)
		switch top, _, _ := strings.Cut(rel, "/"); {
		case errors.Is(err, fs.ErrNotExist) || rel == ".":
		case err != nil:
			return err
		case top != "images":
			others = append(others, rel)
		case !d.IsDir():
			images = append(images, d.Name())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(images)
	return images, others
}

func (f *farHost) clean(t *testing.T, when string) {
	t.Helper()
	if left := f.has(t); len(left) > 0 {
		t.Errorf("%s: left on libvirt: %v", when, left)
	}
	images, others := f.files(t)
	if want := []string{"initramfs", "kernel", "root"}; !slices.Equal(images, want) || len(others) > 0 {
		t.Errorf("%s: left on the host: %v, and of images %v", when, others, images)
	}
}

// TestAccLongFarLibvirt: a lab on the libvirt of another machine, by SSH alone. A host
// that is not known is not spoken with. A connection that breaks while the lab is
// made is named, and what was made is found by destroy. The lab answers through
// its tunnel; when its state is lost, sweep finds it by its marks.
func TestAccLongFarLibvirt(t *testing.T) {
	vmtest.NeedLong(t)
	needLab(t)
	f := startFar(t)
	s := newSite(t, small("far", "198.19.61", "")+fmt.Sprintf("\nprovider \"libvirt\" { uri = %q }\n", f.farURI()))
	s.netns = f.pid
	ownRegistry(t, s)

	f.write(t, "known_hosts", "")
	if r := s.must(1, time.Minute, "apply", "lab.hcl"); !strings.Contains(words(r.stderr), "key is not known") || !strings.Contains(r.stderr, "known_hosts") {
		t.Errorf("an unknown host: %s", r)
	}
	f.write(t, "known_hosts", knownhosts.Line([]string{farAddress}, f.hostID)+"\n")

	cmd, out, errOut := s.start("apply", "lab.hcl")
	poll(t, 2*time.Minute, "no machine was made", func() bool {
		return slices.ContainsFunc(f.has(t), func(x string) bool { return strings.HasPrefix(x, "domain") })
	})
	f.cutOff(t)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(words(errOut.String()), "cannot be reached") && !strings.Contains(words(errOut.String()), "was lost") {
		t.Errorf("cut off: exit %d\n%s\n%s", code, out, errOut)
	}
	f.sshd(t)
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	f.clean(t, "cut off and destroyed")

	r := s.must(0, 3*time.Minute, "apply", "lab.hcl")
	t.Logf("applied in %s", r.took)
	if strings.Contains(r.stdout, "uploaded") {
		t.Errorf("uploaded again: %s", r)
	}
	dig := s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.61.101", "n7.small.test")
	if strings.TrimSpace(dig.stdout) != "192.0.2.7" {
		t.Errorf("through the tunnel: %s", dig)
	}
	if r := s.must(0, time.Minute, "logs", "backend.web"); !strings.Contains(r.stdout, "lvslab-agent: ports open") || r.stderr != "" {
		t.Errorf("console: %s", r)
	}
	if r := s.must(0, time.Minute, "plan", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("plan of what is there: %s", r)
	}
	if r := s.must(0, time.Minute, "sweep", "--auto-approve", "--connect", f.farURI()); !strings.Contains(r.stdout, "it has a state") {
		t.Errorf("sweep of a lab that has a state: %s", r)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, ".lvslab")); err != nil {
		t.Fatal(err)
	}
	s.must(0, time.Minute, "sweep", "--auto-approve", "--connect", f.farURI())
	f.clean(t, "swept")
}

// inNetns has a command run where the far host can be reached.
func inNetns(ctx context.Context, pid int, name string, args []string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"-t", fmt.Sprint(pid), "-n", "--", name}, args...)...)
}
