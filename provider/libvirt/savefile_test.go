package libvirt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/provider/schema"
)

// saved is a file as libvirt 9.0 writes it: definition, cookie, padding.
func saved(t testing.TB, xml, cookie, stream string) []byte {
	t.Helper()
	h := saveHead{xml: xml, cookie: cookie}.encode()
	const padding = 1000
	h = append(h, make([]byte, padding)...)
	binary.LittleEndian.PutUint32(h[len(saveMagic)+4:], uint32(len(h)-saveHeaderSize))
	return append(h, stream...)
}

func TestSaveHead(t *testing.T) {
	for _, cookie := range []string{"", "<cookie/>"} {
		file := saved(t, "<domain/>", cookie, "STREAM")
		h, err := readSaveHead(bytes.NewReader(file))
		if err != nil || h.xml != "<domain/>" || h.cookie != cookie || string(file[h.stream:]) != "STREAM" {
			t.Fatalf("%+v, %v", h, err)
		}
		h.xml = "<domain><name>a longer one</name></domain>"
		again, err := readSaveHead(bytes.NewReader(h.encode()))
		if err != nil || again.xml != h.xml || again.cookie != cookie || again.stream != int64(len(h.encode())) {
			t.Errorf("written anew: %+v, %v", again, err)
		}
	}
}

func TestSaveHeadRefusesWhatItDoesNotKnow(t *testing.T) {
	good := saved(t, "<domain/>", "<cookie/>", "")
	change := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[len(saveMagic)+4*at:], v)
		return b
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":          {nil, "EOF"},
		"other file":     {bytes.Repeat([]byte("x"), 200), `begins with "xxx`},
		"half saved":     {append([]byte(savePartMagic), good[len(saveMagic):]...), "did not come to its end"},
		"newer":          {change(0, 3), "version 3"},
		"compressed":     {change(3, 1), "compressed"},
		"no definition":  {change(1, 0), "0 bytes"},
		"huge":           {change(1, 1<<31), "bytes"},
		"cookie outside": {change(4, 1<<20), "cookie at"},
		"cut":            {good[:150], "EOF"},
	} {
		_, err := readSaveHead(bytes.NewReader(c.file))
		if !errors.Is(err, errSaveFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzSaveHead(f *testing.F) {
	f.Add(saved(f, "<domain/>", "<cookie/>", "x"))
	f.Add([]byte(saveMagic))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := readSaveHead(bytes.NewReader(file))
		if err != nil {
			return
		}
		again, err := readSaveHead(bytes.NewReader(h.encode()))
		if err != nil || again.xml != h.xml || again.cookie != h.cookie {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}

func cloned() schema.Domain {
	return schema.Domain{Name: "lv-x-ns-0", UUID: "5b8f7c1e-0000-5000-8000-00000000000a", Address: "backend.ns[0]", Lineage: "77aa",
		Memory: 256 << 20, VCPUs: 1, Accelerator: "tcg", Kernel: "/cache/other/vmlinuz", Initrd: "/cache/other/initrd", Root: "/cache/other/root",
		Cmdline: "console=ttyS0 rdinit=/lvslab-agent quiet mitigations=off cryptomgr.notests panic=-1",
		Console: "/lab/console/ns-0.log", NICs: []schema.NIC{{Network: "lv-x-lan", MAC: "52:54:00:00:00:0a"}}}
}

func TestCloneXML(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "saved.xml"))
	if err != nil {
		t.Fatal(err)
	}
	path := func(domain, port string) string { return "/run/ch/" + domain + "." + port }
	d := cloned()
	got, err := cloneXML(string(text), d, mark{Lineage: d.Lineage, Address: d.Address, Started: "2026-12-02T00:00:00Z", Template: "k"}, path)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "clone.xml", got+"\n")
	for _, left := range []string{"34649728", "template-1c47", "/templates/", "ch/template", "02:00:00"} {
		if strings.Contains(got, left) {
			t.Errorf("%q of the template is left", left)
		}
	}
	have, m, marked, err := domainFromXML(got)
	if err != nil || !marked || !sameDefinition(have, d) || m.Template != "k" || have.Template != "k" {
		t.Errorf("read back: %+v, %+v, %v, %v", have, m, marked, err)
	}
}

func TestCloneXMLRefusesAnotherKind(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "saved.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*schema.Domain){
		"memory":       func(d *schema.Domain) { d.Memory *= 2 },
		"processors":   func(d *schema.Domain) { d.VCPUs = 2 },
		"accelerator":  func(d *schema.Domain) { d.Accelerator = "kvm" },
		"command line": func(d *schema.Domain) { d.Cmdline += " debug" },
		"no card":      func(d *schema.Domain) { d.NICs = nil },
	} {
		d := cloned()
		change(&d)
		if _, err := cloneXML(string(text), d, mark{}, func(string, string) string { return "" }); !errors.Is(err, errSaveFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cloneXML("<domain", cloned(), mark{}, nil); !errors.Is(err, errSaveFile) {
		t.Errorf("broken definition: %v", err)
	}
}

// TestShape: identity, paths and cards are not in it, what a saved machine
// depends on is.
func TestShape(t *testing.T) {
	d := cloned()
	shape := func(change func(*schema.Domain)) string {
		e := d
		change(&e)
		s, err := Shape(e)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := shape(func(*schema.Domain) {})
	for name, change := range map[string]func(*schema.Domain){
		"name": func(d *schema.Domain) { d.Name = "x" }, "uuid": func(d *schema.Domain) { d.UUID = "x" },
		"paths": func(d *schema.Domain) { d.Kernel, d.Root, d.Console = "x", "y", "z" }, "cards": func(d *schema.Domain) { d.NICs = nil },
	} {
		if shape(change) != base {
			t.Errorf("%s changes the shape", name)
		}
	}
	for name, change := range map[string]func(*schema.Domain){
		"memory": func(d *schema.Domain) { d.Memory *= 2 }, "processors": func(d *schema.Domain) { d.VCPUs = 2 },
		"accelerator": func(d *schema.Domain) { d.Accelerator = "kvm" }, "command line": func(d *schema.Domain) { d.Cmdline = "x" },
	} {
		if shape(change) == base {
			t.Errorf("%s does not change the shape", name)
		}
	}
}
