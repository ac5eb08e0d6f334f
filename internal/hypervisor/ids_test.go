package hypervisor

import (
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/golden"
)

// The kernel takes 107 bytes (unix(7)), and process ids go up to 4194304.
func TestSocketPathsFit(t *testing.T) {
	h := &Holder{PID: 4194304}
	long := strings.Repeat("a-very-long-lab-name-", 12)
	for _, p := range []string{
		h.LibvirtSocket(), h.ChannelSocket("lv-ab12-ns-0", "org.lvslab.engine"),
		h.ChannelSocket(long, "org.lvslab.user.3"), h.ChannelSocket(long, strings.Repeat("x", 90)),
	} {
		if len(p) > 107 {
			t.Errorf("%d bytes: %s", len(p), p)
		}
	}
	if got, want := h.ChannelSocket("lv-ab12-ns-0", "org.lvslab.user.0"), "/proc/4194304/root/run/lvslab/ch/lv-ab12-ns-0.user.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if h.ChannelPathInside(long+"1", "org.lvslab.engine") == h.ChannelPathInside(long+"2", "org.lvslab.engine") {
		t.Error("two long names have one socket")
	}
}

func TestConfiguration(t *testing.T) {
	golden.Check(t, "libvirtd.conf", libvirtdConf("4f1c2ab609aa4f7e8a350d3a1f0f8c11"))
	golden.Check(t, "qemu.conf", qemuConf())
}

func TestHostname(t *testing.T) {
	// A host name's label has at most 63 bytes and does not end in a dash.
	for _, lineage := range []string{"abc", strings.Repeat("x", 64), strings.Repeat("x", 39) + "-" + "yyyy"} {
		name := hostname(lineage)
		if len(name) > 63 || strings.HasSuffix(name, "-") {
			t.Errorf("%q", name)
		}
	}
}
