// Package labtest makes real labs for the engine's tests: topologies as users
// write them, read by the language, laid out and lowered, and a fake host of the
// product's own resource types.
package labtest

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
	"github.com/lvslab/lvslab/provider/schema"
	"github.com/lvslab/lvslab/topologies"
)

// Topology is a topology that has been read. It remembers what it was lowered to:
// the tests of every crash lower the same few topologies thousands of times.
type Topology struct {
	config   *lang.Config
	skeleton *lang.Skeleton

	mu      sync.Mutex
	lowered map[string]lowered
}

type lowered struct {
	wanted    []provider.Resource
	addresses map[string]netip.Addr
}

// Resolve reads a topology's text and lays its addresses out, as for a lab that
// does not exist yet.
func Resolve(text string) (*lang.Topology, error) {
	t, err := Read(text)
	if err != nil {
		return nil, err
	}
	top, _, err := t.resolve(nil)
	return top, err
}

// Read reads a topology's text.
func Read(text string) (*Topology, error) {
	c, ds := lang.Parse(lang.BuiltinSource("lab", []byte(text)))
	if ds.HasErrors() {
		return nil, ds.Err()
	}
	sk, ds := c.Skeleton(lang.Inputs{})
	return &Topology{config: c, skeleton: sk, lowered: map[string]lowered{}}, ds.Err()
}

// Lower returns what a lab of that lineage wants to exist, and the addresses that
// it has then; prior are those that its state holds. Neither may be changed.
func (t *Topology) Lower(lineage string, prior map[string]netip.Addr) ([]provider.Resource, map[string]netip.Addr, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := fmt.Sprint(lineage, prior) // maps print in the order of their keys
	if l, ok := t.lowered[key]; ok {
		return l.wanted, l.addresses, nil
	}
	wanted, addresses, err := t.lower(lineage, prior)
	if err == nil {
		t.lowered[key] = lowered{wanted, addresses}
	}
	return wanted, addresses, err
}

func (t *Topology) lower(lineage string, prior map[string]netip.Addr) ([]provider.Resource, map[string]netip.Addr, error) {
	top, addresses, err := t.resolve(prior)
	if err != nil {
		return nil, nil, err
	}
	layout, err := topo.Lay(top, lineage)
	if err != nil {
		return nil, nil, err
	}
	rs, err := lower.Resources(top, layout, lower.Options{
		LabDir: "/lab", Accelerator: "tcg",
		Guests: map[lang.Guest]lower.Guest{{}: {Kernel: "/image/vmlinuz", Initrd: "/image/initrd", Root: "/image/root.squashfs"}},
	})
	return rs, addresses, err
}

func (t *Topology) resolve(prior map[string]netip.Addr) (*lang.Topology, map[string]netip.Addr, error) {
	addresses, ds := topo.Assign(t.skeleton, prior)
	if ds.HasErrors() {
		return nil, nil, ds.Err()
	}
	top, ds := t.config.Resolve(t.skeleton, addresses)
	if ds.HasErrors() {
		return nil, nil, ds.Err()
	}
	return top, addresses, nil
}

// Demo returns the text of the demonstration's topology with edits: pairs of what
// is replaced, once and whole, and by what. It panics when there is no such text.
func Demo(edits ...string) string {
	text, ok := topologies.Get("lvs-tun-dns")
	if !ok {
		panic("labtest: the demonstration's topology is gone")
	}
	out := string(text)
	for i := 0; i < len(edits); i += 2 {
		if strings.Count(out, edits[i]) != 1 {
			panic(fmt.Sprintf("labtest: %q stands %d times in the topology", edits[i], strings.Count(out, edits[i])))
		}
		out = strings.Replace(out, edits[i], edits[i+1], 1)
	}
	return out
}

// Changed is the demonstration's lab with something of each: machines more and
// less, one replaced, settings changed in place, and a virtual address that moves
// from one service to another.
func Changed() string {
	return Demo(
		"  count = 1\n\n  nic { network = network.lan }", "  count = 2\n  memory = \"192MiB\"\n\n  nic { network = network.lan }",
		"  count  = 3\n  memory = \"256MiB\"", "  count  = 2\n  memory = \"256MiB\"",
		"range(100)", "range(50)",
		"vip        = \"198.18.0.101\"", "vips       = [\"198.18.0.102\", \"198.18.0.103\"]",
		"scheduler  = \"rr\"\n", "scheduler  = \"wrr\"\n",
		"experiment \"schedulers\" {", `service "second" {
  director  = director.lb
  vip       = "198.18.0.101"
  port      = 53
  protocol  = "udp"
  scheduler = "lc"
  forward   = "tunnel"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
    weight   = 3
  }
}

experiment "schedulers" {`)
}

// Rebuilt is the demonstration's lab on another network device: every machine is
// replaced.
func Rebuilt() string {
	return Demo("  cidr = \"198.18.0.0/24\"", "  cidr = \"198.18.0.0/24\"\n  mtu  = 1400")
}

// Provider returns a fake provider of the product's resource types.
func Provider(w fake.World) *fake.Provider {
	p := fake.New(schema.All(), w)
	p.Pieces[schema.TypeIPVS] = fake.Pieces{Attribute: "services", Name: func(service cty.Value) string {
		return schema.IPVSSchema.Claims(cty.ObjectVal(map[string]cty.Value{"services": cty.ListVal([]cty.Value{service})}))[0]
	}}
	return p
}
