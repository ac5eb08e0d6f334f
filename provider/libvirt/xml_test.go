package libvirt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/provider/schema"
)

var sampleNetwork = schema.Network{Name: "lv-4f1c2ab6-lan", UUID: "0a6c0a3e-5b8f-5c57-9c9d-7d7c8f0f1a11", Bridge: "lv4f1c2ab6lan",
	Address: "network.lan", Lineage: "4f1c2ab6", MTU: 1500}

var sampleDomain = schema.Domain{Name: "lv-4f1c2ab6-ns-0", UUID: "3f1f6b0e-34b5-5cf4-8e2e-9f1c3c0a2b22", Address: `backend.ns["a&b"]`,
	Lineage: "4f1c2ab6", Memory: 256 << 20, VCPUs: 1, Kernel: "/cache/vmlinuz", Initrd: "/cache/initrd",
	Cmdline: `console=ttyS0 quiet rdinit=/lvslab-agent lvslab.note="a < b"`, Root: "/cache/root.squashfs", Accelerator: "tcg",
	Console: "/lab/console/ns-0.log",
	NICs:    []schema.NIC{{Network: "lv-4f1c2ab6-lan", MAC: "52:54:00:12:34:56"}, {Network: "lv-4f1c2ab6-wan", MAC: "52:54:00:12:34:57"}}}

var sampleMark = mark{Lineage: sampleDomain.Lineage, Address: sampleDomain.Address, Started: "2026-12-01T10:00:00Z"}

func samplePath(domain, port string) string { return "/run/lvslab/ch/" + domain + "." + port }

func TestNetworkXML(t *testing.T) {
	for name, ready := range map[string]bool{"network.xml": false, "network-ready.xml": true} {
		text, err := networkXML(sampleNetwork, "/home/me/a \"b\" & c/.lvslab/demo", ready)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, text)
		want := Owned{schema.TypeNetwork, sampleNetwork.Name, sampleNetwork.UUID, sampleNetwork.Lineage, sampleNetwork.Address, "/home/me/a \"b\" & c/.lvslab/demo", ""}
		if o, marked, err := ownedNetwork(text); err != nil || marked == ready || marked && o != want {
			t.Errorf("%s: %+v, %t, %v", name, o, marked, err)
		}
		have, err := networkFromXML(text, sampleNetwork)
		if ready {
			have.MTU = sampleNetwork.MTU // the bridge knows it
		}
		if err != nil || have != sampleNetwork {
			t.Errorf("%s: %+v, %v", name, have, err)
		}
	}
}

func TestDomainXML(t *testing.T) {
	kvm, bare := sampleDomain, sampleDomain
	kvm.Accelerator = "kvm"
	bare.Root, bare.Initrd, bare.NICs = "", "", nil
	own := sampleDomain
	own.Kernel, own.Initrd, own.Cmdline, own.Root = "", "", "", ""
	own.Disk, own.DiskFormat, own.DiskSum, own.Seed = "/home/me/a, b <c>.qcow2", "qcow2", "0123456789abcdef0123", "/cache/seeds/x.iso"
	for name, d := range map[string]schema.Domain{"domain-disk.xml": own, "domain-tcg.xml": sampleDomain, "domain-kvm.xml": kvm, "domain-bare.xml": bare} {
		text, err := domainXML(d, sampleMark, samplePath)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, text)
		have, m, marked, err := domainFromXML(text)
		if err != nil || !marked || m != sampleMark {
			t.Errorf("%s: mark %+v, %v, %v", name, m, marked, err)
		}
		have.Started = ""
		if diff := cmp.Diff(d, have); diff != "" {
			t.Errorf("%s read back: -want +got\n%s", name, diff)
		}
		if !sameDefinition(have, d) {
			t.Errorf("%s: read back counts as changed", name)
		}
	}
}

func TestMark(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		want   mark
		marked bool
		fails  bool
	}{
		"ours":            {sampleMark.encode(), sampleMark, true, false},
		"among others":    {`<a:x xmlns:a="u"><a:y/></a:x>` + sampleMark.encode(), sampleMark, true, false},
		"other prefix":    {`<q:lab xmlns:q="` + markSpace + `" lineage="l" address="a"/>`, mark{Lineage: "l", Address: "a"}, true, false},
		"other namespace": {`<lvslab:lab xmlns:lvslab="http://example.org/" lineage="l"/>`, mark{}, false, false},
		"none":            {"", mark{}, false, false},
		"broken":          {"<a:x", mark{}, false, true},
	} {
		got, marked, err := findMark(c.text)
		if got != c.want || marked != c.marked || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v, %v", name, got, marked, err)
		}
	}
}

func FuzzMark(f *testing.F) {
	f.Add("4f1c", `backend.ns["a&b"]`)
	f.Add(`"<>&'`, "]]>")
	f.Fuzz(func(t *testing.T, lineage, address string) {
		clean := func(s string) string { // XML has no other control characters
			return strings.Map(func(r rune) rune {
				if r < ' ' || r == '\uFFFD' || r == '\uFFFE' || r == '\uFFFF' {
					return -1
				}
				return r
			}, strings.ToValidUTF8(s, ""))
		}
		m := mark{Lineage: clean(lineage), Address: clean(address)}
		got, marked, err := findMark(m.encode())
		if err != nil || !marked || got != m {
			t.Errorf("%+v, %v, %v; want %+v", got, marked, err, m)
		}
	})
}

func FuzzDomainFromXML(f *testing.F) {
	text, err := domainXML(sampleDomain, sampleMark, samplePath)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("<domain><devices><disk><target dev='vda'/></disk><serial/><interface/></devices></domain>")
	f.Add("<domain><memory unit='GiB'>1</memory><metadata><a/></metadata></domain>")
	f.Fuzz(func(t *testing.T, text string) {
		d, _, marked, err := domainFromXML(text)
		if err == nil && !marked && (d.Lineage != "" || d.Address != "") {
			t.Errorf("an owner without a mark: %+v", d)
		}
	})
}
