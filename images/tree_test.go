package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPruner(t *testing.T) {
	pr, err := newPruner([]string{"usr/share/doc/", "etc/fstab", "usr/lib/*.so.?"})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		"usr/share/doc/":         true,
		"usr/share/doc/x/y":      true,
		"usr/share/docs/x":       false,
		"usr/share/doc":          false, // a file of that name is no directory
		"etc/fstab":              true,
		"etc/fstab.d/x":          false,
		"usr/lib/a.so.1":         true,
		"usr/lib/deep/a.so.1":    false,
		"usr/share/dns/root.key": false,
	} {
		if got := pr.matches(p); got != want {
			t.Errorf("%s: pruned %v, want %v", p, got, want)
		}
	}
	if _, err := newPruner([]string{"a[b"}); err == nil {
		t.Error("a glob that cannot be read is no error")
	}
}

// unpacked makes a small root as packages ship it.
func unpacked(t *testing.T) string {
	root := t.TempDir()
	files := map[string]fs.FileMode{
		"bin/ip": 0o755, "sbin/tool": 0o700, "usr/bin/dig": 0o4755, "etc/hosts": 0o600, "usr/share/doc/a/b": 0o644, "lib/x/liba.so.1": 0o644,
	}
	for p, mode := range files {
		full := filepath.Join(root, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o700), os.WriteFile(full, []byte(p), 0o600), os.Chmod(full, mode)); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{
		"sbin/ip": "/bin/ip", "lib/x/liba.so": "liba.so.1", "usr/bin/gone": "/usr/share/doc/a/b", "usr/bin/chain": "gone",
		"usr/bin/ip": "/bin/ip", // would point to itself once merged
	}
	for p, target := range links {
		if err := os.Symlink(target, filepath.Join(root, p)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestScan(t *testing.T) {
	pr, _ := newPruner([]string{"usr/share/doc/"})
	tr, err := scan(unpacked(t), pr)
	if err != nil {
		t.Fatal(err)
	}
	tr.dropDangling()
	tr.addParents()
	got := map[string]string{}
	for _, p := range tr.paths() {
		got[p] = tr[p].mode.String() + " " + tr[p].link
	}
	want := map[string]string{
		"etc": "drwxr-xr-x ", "etc/hosts": "-rw-r--r-- ",
		"usr": "drwxr-xr-x ", "usr/bin": "drwxr-xr-x ", "usr/bin/dig": "-rwxr-xr-x ", "usr/bin/ip": "-rwxr-xr-x ",
		"usr/sbin": "drwxr-xr-x ", "usr/sbin/ip": "Lrwxrwxrwx /bin/ip", "usr/sbin/tool": "-rwxr-xr-x ",
		"usr/lib": "drwxr-xr-x ", "usr/lib/x": "drwxr-xr-x ", "usr/lib/x/liba.so": "Lrwxrwxrwx liba.so.1", "usr/lib/x/liba.so.1": "-rw-r--r-- ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p, _, ok := tr.follow("usr/sbin/ip"); !ok || p != "usr/bin/ip" {
		t.Errorf("the link leads to %q, %v", p, ok)
	}
}

func TestFollowEndsInLoops(t *testing.T) {
	tr := tree{"a": {mode: fs.ModeSymlink, link: "b"}, "b": {mode: fs.ModeSymlink, link: "/a"}}
	if _, _, ok := tr.follow("a"); ok {
		t.Error("a loop leads somewhere")
	}
	tr.dropDangling()
	if len(tr) != 0 {
		t.Errorf("left %v", tr.paths())
	}
}

func TestTarDependsOnContentOnly(t *testing.T) {
	write := func() []byte {
		pr, _ := newPruner(nil)
		tr, err := scan(unpacked(t), pr) // another directory and other times each call
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.addRecipeFiles(Debian12); err != nil {
			t.Fatal(err)
		}
		tr.addApplets([]string{"dig", "ls"})
		tr.addParents()
		var buf bytes.Buffer
		if err := tr.writeTar(&buf, time.Unix(Debian12.Epoch, 0)); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	one, two := write(), write()
	if !bytes.Equal(one, two) {
		t.Fatal("two archives of the same files differ")
	}
	seen := map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(one)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if dir := filepath.Dir(strings.TrimSuffix(h.Name, "/")); dir != "." && seen[dir+"/"] == nil {
			t.Errorf("%s comes before its directory", h.Name)
		}
		if h.ModTime.Unix() != Debian12.Epoch || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s carries %v %q %q", h.Name, h.ModTime, h.Uname, h.Gname)
		}
		seen[h.Name] = h
	}
	if h := seen["var/cache/bind/"]; h == nil || h.Uid != 101 || h.Gid != 101 || h.Mode != 0o775 {
		t.Errorf("/var/cache/bind is %+v", h)
	}
	if h := seen["tmp/"]; h == nil || h.Mode != 0o1777 {
		t.Errorf("/tmp is %+v", h)
	}
	if h := seen["usr/bin/dig"]; h == nil || h.Typeflag != tar.TypeReg {
		t.Errorf("an applet took the place of a program: %+v", h)
	}
	if h := seen["usr/bin/ls"]; h == nil || h.Linkname != "busybox" {
		t.Errorf("the applet is %+v", h)
	}
}

func TestPasswdAndGroup(t *testing.T) {
	users := []User{{Name: "root", Home: "/root", Shell: "/bin/sh"}, {Name: "nobody", ID: 65534, Home: "/", Shell: "/bin/false", Group: "nogroup"}}
	if got, want := passwd(users), "root:*:0:0::/root:/bin/sh\nnobody:*:65534:65534::/:/bin/false\n"; got != want {
		t.Errorf("passwd is %q", got)
	}
	if got, want := group(users), "root:*:0:\ntty:*:5:\nnogroup:*:65534:\n"; got != want {
		t.Errorf("group is %q", got)
	}
}
