package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func code(err error) string {
	var e *proto.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestFilesStayInside(t *testing.T) {
	dir := t.TempDir()
	f := files{root: filepath.Join(dir, "root")}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	body := proto.FileBody{Path: f.root + "/a/b", Data: []byte("data")}
	if _, err := f.remove(t.Context(), proto.FileRef{Path: body.Path}); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if _, err := f.write(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	got, err := f.read(t.Context(), proto.FileRef{Path: body.Path})
	if err != nil || !bytes.Equal(got.Data, body.Data) {
		t.Errorf("read %+v, %v", got, err)
	}
	if err := os.Symlink(secret, f.root+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{secret, f.root, f.root + "/../secret", f.root + "x/y", "relative", "", f.root + "/link"} {
		if got, err := f.read(t.Context(), proto.FileRef{Path: p}); err == nil {
			t.Errorf("%s could be read: %q", p, got.Data)
		}
		if _, err := f.write(t.Context(), proto.FileBody{Path: p}); err == nil {
			t.Errorf("%s could be written", p)
		}
	}
	if _, err := f.read(t.Context(), proto.FileRef{Path: f.root + "/none"}); asError("", err).Code != proto.CodeNotFound {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := f.remove(t.Context(), proto.FileRef{Path: f.root + "/a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.root + "/a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestModuleFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep":     "kernel/net/ipv4/ipip.ko: kernel/net/ipv4/tunnel4.ko kernel/net/ipv4/ip_tunnel.ko\nkernel/net/ipv4/tunnel4.ko:\nkernel/net/sched/sch_netem.ko.xz:\n",
		"modules.builtin": "kernel/net/ipv4/netfilter/nf-reject.ko\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{
		"ipip":      {"kernel/net/ipv4/ip_tunnel.ko", "kernel/net/ipv4/tunnel4.ko", "kernel/net/ipv4/ipip.ko"},
		"sch-netem": {"kernel/net/sched/sch_netem.ko.xz"},
		"nf_reject": nil,
	} {
		if got, err := moduleFiles(dir, name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := moduleFiles(dir, "ip_vs_twos"); code(err) != proto.CodeUnsupported {
		t.Errorf("a missing module: %v", err)
	}
}

func TestFindPort(t *testing.T) {
	class := t.TempDir()
	for dev, name := range map[string]string{"vport1p1": "org.lvslab.engine\n", "vport1p2": "org.lvslab.user.0\n", "vport2p0": "\n"} {
		if err := os.MkdirAll(filepath.Join(class, dev), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, dev, "name"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(class, "vport3p0"), 0o755); err != nil { // not named yet
		t.Fatal(err)
	}
	if dev, ok := findPort(class, "org.lvslab.user.0"); !ok || dev != "/dev/vport1p2" {
		t.Errorf("found %q %v", dev, ok)
	}
	for _, name := range []string{"org.lvslab.user.3", "org.lvslab"} {
		if dev, ok := findPort(class, name); ok {
			t.Errorf("%s is %s", name, dev)
		}
	}
	if _, ok := findPort(filepath.Join(class, "none"), "x"); ok {
		t.Error("found a port without a driver")
	}
}

func TestSysctlPath(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.ip_forward":           "/proc/sys/net/ipv4/ip_forward",
		"net/ipv4/conf/lan.7/rp_filter": "/proc/sys/net/ipv4/conf/lan.7/rp_filter",
		"net/../../etc/passwd":          "",
		"../x":                          "",
		"":                              "",
		".":                             "",
	} {
		got, err := sysctlPath(name)
		if want == "" && code(err) != proto.CodeInvalid || want != "" && got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

func TestNetemValues(t *testing.T) {
	for _, us := range []int64{1, 2, 999, 1000, 1001, 30000, 1234567} {
		if got := ticksToUS(uint32(us * 1000 / tickNS)); got != us {
			t.Errorf("%d µs come back as %d", us, got)
		}
	}
	for _, pct := range []float64{0, 0.0001, 0.07, 0.1, 1, 33.3333, 100} {
		fraction := uint32(float32(pct) / 100 * 4294967295)
		if pct == 100 {
			fraction = 4294967295
		}
		if got := percent(fraction); got != pct {
			t.Errorf("%g %% comes back as %g", pct, got)
		}
	}
	for _, bad := range []proto.NetemSpec{{JitterUS: 1}, {DelayUS: 5, JitterUS: 6}, {ReorderPct: 1}, {LossPct: 101}, {DelayUS: -1}, {RateBits: 7}, {Limit: -1}} {
		if code(checkNetem(bad)) != proto.CodeInvalid {
			t.Errorf("%+v passed", bad)
		}
	}
	if err := checkNetem(proto.NetemSpec{DelayUS: 6, JitterUS: 6, LossPct: 100, ReorderPct: 5, RateBits: 8}); err != nil {
		t.Error(err)
	}
}

func TestChecksum(t *testing.T) {
	// RFC 1071, section 3: the sum of these is ddf2.
	if got := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("checksum %04x", got)
	}
}
