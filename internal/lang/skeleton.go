package lang

import (
	"net/netip"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Skeleton is the topology after phases 1 and 2: which machines there are, on
// which networks, and which addresses the file itself says. It is what
// topo.Assign needs to give every NIC its address.
type Skeleton struct {
	Networks []SkeletonNetwork
	Machines []SkeletonMachine // declared order, instances in order
	VIPs     []SkeletonVIP
	// Nouns are all instances of blocks that become something, declared order.
	Nouns []addr.Noun
	// Moves are the moved blocks.
	Moves []Move

	vars    map[string]result // the variables' values, for the later phases
	secrets []string          // texts of sensitive variables
}

// SkeletonNetwork is a network with its prefix.
type SkeletonNetwork struct {
	Noun  addr.Noun
	CIDR  netip.Prefix
	Range diag.Range
}

// SkeletonMachine is a machine with its NICs.
type SkeletonMachine struct {
	Noun  addr.Noun
	NICs  []SkeletonNIC
	Range diag.Range
}

// SkeletonNIC wants Count addresses on Network, at least 1. Address, when
// valid, is the primary one as the file says it.
type SkeletonNIC struct {
	Network addr.Noun
	Address netip.Addr
	Count   int
	Range   diag.Range
}

// SkeletonVIP is a virtual address of a service.
type SkeletonVIP struct {
	Service addr.Noun
	Address netip.Addr
	Range   diag.Range
}

// maxClientAddresses bounds the addresses of one client.
const maxClientAddresses = 1024

// maxNICs bounds the NICs of a machine; each takes a PCI slot of machine type pc.
const maxNICs = 8

// Skeleton evaluates phases 1 and 2 with the inputs given. On errors it
// returns nil and all the errors that can be found, those of later phases too.
func (c *Config) Skeleton(in Inputs) (*Skeleton, diag.Diagnostics) {
	e := newEvaluator(c, phaseAddresses)
	e.bindVariables(in)
	e.checkVersion(in.Version)
	e.allLocals()
	sk := e.skeleton()
	e.skeletonRules(sk)
	if e.problems.list.HasErrors() {
		e.problems.add(c.further(in)...)
		return nil, e.told()
	}
	sk.vars, sk.secrets = e.vars, e.secrets
	return sk, e.told()
}

// Check looks for errors in all phases without asking for the value of every
// variable: one that has none is unknown but typed. It is what a validation
// without inputs can say; what depends on assigned addresses is left open.
func (c *Config) Check(in Inputs) diag.Diagnostics {
	p := problems{list: c.further(in)}
	return p.sorted()
}

// further looks through all phases for errors after a step has found some.
// Nothing is known for sure then, so what is unknown is no error.
func (c *Config) further(in Inputs) diag.Diagnostics {
	e := newEvaluator(c, phaseArguments)
	e.sketch = true
	e.bindVariables(in)
	e.allLocals()
	sk := e.skeleton()
	e.skeletonRules(sk)
	e.topology(sk)
	e.latest = phaseResults
	e.conclude()
	return e.problems.list
}

func (e *evaluator) skeleton() *Skeleton {
	sk := &Skeleton{}
	for _, c := range e.configs() {
		for _, m := range c.moves {
			m.From, m.To = m.From.In(c.path.Join(m.From.Module)), m.To.In(c.path.Join(m.To.Module))
			sk.Moves = append(sk.Moves, m)
		}
	}
	e.insides()
	e.eachInstance(func(b *block, inst *instance) {
		n := b.noun.At(inst.key)
		sk.Nouns = append(sk.Nouns, n)
		switch kind := n.Kind; {
		case kind == addr.Network:
			sk.addNetwork(e, b, inst)
		case kind.Machine():
			sk.addMachine(e, b, inst)
		case kind == addr.Service:
			for _, ip := range e.vips(b, inst) {
				sk.VIPs = append(sk.VIPs, SkeletonVIP{Service: n, Address: ip, Range: e.placeOr(b, n.String()+"/"+vipArg(b))})
			}
		}
	})
	return sk
}

// placeOr is where an argument stands, or else the block's header.
func (e *evaluator) placeOr(b *block, place string) diag.Range {
	if r, ok := e.places[place]; ok {
		return r
	}
	return b.rng
}

func (sk *Skeleton) addNetwork(e *evaluator, b *block, inst *instance) {
	r := e.reader(b, inst)
	v, ok := r.value("cidr", cty.String)
	if !ok {
		r.fail("cidr")
		return
	}
	p, err := netip.ParsePrefix(v.AsString())
	switch {
	case err != nil:
		r.complain("cidr", "Not a network", `Write address/length, for example "198.18.0.0/24".`, "cidr of %s is %q.", r.noun, v.AsString())
	case p.Addr().Is4In6():
		r.complain("cidr", "Not a network", "Write it as an IPv4 network.", "cidr of %s is %s, IPv4 addresses in the clothes of IPv6.", r.noun, p)
	case p.Masked() != p:
		r.complain("cidr", "Not a network", "Write "+p.Masked().String()+".", "cidr of %s is %s, an address inside a network.", r.noun, p)
	case p.Addr().Is6() && (p.Bits() < 32 || p.Bits() > 124):
		r.complain("cidr", "Network of a useless size", "Use a length from /32 to /124, best /64.", "cidr of %s is %s.", r.noun, p)
	case p.Addr().Is4() && (p.Bits() < 8 || p.Bits() > 30):
		r.complain("cidr", "Network of a useless size", "Use a length from /8 to /30.", "cidr of %s is %s.", r.noun, p)
	default:
		sk.Networks = append(sk.Networks, SkeletonNetwork{Noun: r.noun, CIDR: p, Range: e.placeOr(b, r.place("cidr"))})
	}
}

func (sk *Skeleton) addMachine(e *evaluator, b *block, inst *instance) {
	m := SkeletonMachine{Noun: b.noun.At(inst.key), Range: b.rng}
	for _, s := range e.nicSlots(b, inst) {
		if s.ok {
			m.NICs = append(m.NICs, SkeletonNIC{Network: s.network, Address: s.address, Count: s.count, Range: s.rng})
		}
	}
	sk.Machines = append(sk.Machines, m)
}

// nicSlot is one NIC's wish for addresses.
type nicSlot struct {
	network addr.Noun
	address netip.Addr
	count   int
	rng     diag.Range
	ok      bool
}

func (e *evaluator) nicSlots(b *block, inst *instance) []nicSlot {
	noun := b.noun.At(inst.key)
	if slots, done := e.slots[noun]; done {
		return slots
	}
	m := e.reader(b, inst)
	count := int(m.whole("addresses", 1, 1, maxClientAddresses))
	var out []nicSlot
	for i, nb := range b.sub("nic") {
		r := m.sub(nb, i)
		s := nicSlot{network: r.handle("network", addr.Network), address: r.address("address"), count: 1, rng: nb.rng}
		s.ok = !s.network.IsZero()
		if i == 0 {
			s.count = count
		}
		if i == maxNICs {
			m.complain("", "Too many NICs", "Use fewer networks.", "%s has more than %d NICs.", noun, maxNICs)
		}
		out = append(out, s)
	}
	if e.slots == nil {
		e.slots = map[addr.Noun][]nicSlot{}
	}
	e.slots[noun] = out
	return out
}

func vipArg(b *block) string {
	if b.args["vips"] != nil {
		return "vips"
	}
	return "vip"
}

// vips reads a service's addresses.
func (e *evaluator) vips(b *block, inst *instance) []netip.Addr {
	noun := b.noun.At(inst.key)
	if list, done := e.vipsOf[noun]; done {
		return list
	}
	r := e.reader(b, inst)
	var out []netip.Addr
	if b.args["vips"] != nil {
		for _, s := range r.texts("vips") {
			if ip := r.parseAddress("vips", s); ip.IsValid() {
				out = append(out, ip)
			}
		}
	} else if ip := r.address("vip"); ip.IsValid() {
		out = append(out, ip)
	}
	if e.vipsOf == nil {
		e.vipsOf = map[addr.Noun][]netip.Addr{}
	}
	e.vipsOf[noun] = out
	return out
}

func (e *evaluator) vipAttribute(b *block, inst *instance, a attribute) result {
	list := e.vips(b, inst)
	if len(list) == 0 {
		if a.name == "vips" {
			return result{val: cty.ListValEmpty(cty.String), ok: !e.defects.arg(b.noun.At(inst.key), "vip", "vips")}
		}
		return result{val: cty.NullVal(cty.String), ok: !e.defects.arg(b.noun.At(inst.key), "vip", "vips")}
	}
	var all []cty.Value
	for _, ip := range list {
		all = append(all, cty.StringVal(ip.String()))
	}
	if a.name == "vips" {
		return result{val: cty.ListVal(all), ok: true}
	}
	return result{val: all[0], ok: true}
}
