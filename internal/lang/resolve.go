package lang

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Resolve evaluates phase 3 with the addresses that topo.Assign gave, keyed as
// [SlotKeys] says, and applies the rules of [Validate]. On errors it returns
// nil and all the errors that can be found, those of checks and outputs too.
func (c *Config) Resolve(sk *Skeleton, addresses map[string]netip.Addr) (*Topology, diag.Diagnostics) {
	e := c.resolver(sk, addresses)
	t := e.topology(e.skeleton())
	if e.problems.list.HasErrors() {
		e.latest, e.sketch = phaseResults, true
		e.conclude()
		return nil, e.told()
	}
	return t, e.told()
}

func (c *Config) resolver(sk *Skeleton, addresses map[string]netip.Addr) *evaluator {
	e := newEvaluator(c, phaseArguments)
	e.vars, e.secrets, e.addresses = sk.vars, slices.Clone(sk.secrets), addresses
	if e.addresses == nil {
		e.addresses = map[string]netip.Addr{}
	}
	e.allLocals()
	return e
}

// topology evaluates everything of phase 3.
func (e *evaluator) topology(sk *Skeleton) *Topology {
	t := &Topology{Places: e.places, Variables: map[string]cty.Value{}, DependsOn: map[addr.Noun][]addr.Noun{}}
	for _, v := range e.c.variables {
		if val := e.vars[v.name].val; !v.secret && e.vars[v.name].ok {
			t.Variables[v.name] = val
		}
	}
	e.lab(t)
	e.insides()
	e.eachInstance(func(b *block, inst *instance) {
		switch kind := b.noun.Kind; {
		case kind == addr.Network:
			e.network(t, sk, b, inst)
		case kind.Machine():
			t.Machines = append(t.Machines, e.machine(b, inst))
		case kind == addr.Zone:
			t.Zones = append(t.Zones, e.zone(b))
		case kind == addr.Image:
			t.Images = append(t.Images, e.image(b))
		}
		e.dependsOn(t, b, inst)
	})
	t.inheritImpairments()
	e.eachInstance(func(b *block, inst *instance) {
		if b.noun.Kind == addr.Tunnel {
			t.Tunnels = append(t.Tunnels, e.tunnel(t, b, inst))
		}
	})
	e.eachInstance(func(b *block, inst *instance) {
		if b.noun.Kind == addr.Service {
			t.Services = append(t.Services, e.service(t, b, inst))
		}
	})
	e.eachInstance(func(b *block, inst *instance) {
		if b.noun.Kind == addr.Experiment {
			t.Experiments = append(t.Experiments, e.experiment(t, b))
		}
	})
	e.eachInstance(func(b *block, _ *instance) {
		if b.noun.Kind == addr.Population {
			t.Populations = append(t.Populations, e.population(b))
		}
	})
	t.inOrder()
	e.problems.add(validate(t, e.defects, e.values)...)
	return t
}

// eachInstance walks the blocks in declared order, instances in theirs.
func (e *evaluator) eachInstance(f func(b *block, inst *instance)) {
	e.eachBlock(func(b *block) {
		ex := e.expand(b)
		for i := range ex.instances {
			f(b, &ex.instances[i])
		}
	})
}

func (e *evaluator) lab(t *Topology) {
	t.Lab = Lab{Name: e.c.labName(), Teardown: TeardownOnSuccess}
	if b := e.c.lab; b != nil {
		r := e.reader(b, nil)
		t.Lab.Description = r.text("description", "")
		t.Lab.Teardown = Teardown(r.oneOf("teardown", string(TeardownOnSuccess), string(TeardownAlways), string(TeardownOnSuccess), string(TeardownNever)))
		t.Lab.Range = b.rng
	}
	t.Provider = Provider{URI: defaultURI}
	if b := e.c.provider; b != nil {
		r := e.reader(b, nil)
		t.Provider = Provider{URI: r.text("uri", defaultURI), Range: b.rng}
		if u := t.Provider.URI; u != defaultURI && !strings.Contains(u, "://") && !strings.Contains(u, ":///") {
			r.complain("uri", "Not a libvirt URI", `Write "embedded", "qemu:///system" or "qemu:///session".`, "uri is %q.", u)
		}
	}
}

func (e *evaluator) network(t *Topology, sk *Skeleton, b *block, inst *instance) {
	r := e.reader(b, inst)
	n := Network{Noun: r.noun, Range: b.rng, MTU: int(r.whole("mtu", defaultMTU, smallestPacket, 9000)), Impair: e.impair(r)}
	for _, s := range sk.Networks {
		if s.Noun == n.Noun {
			n.CIDR = s.CIDR
		}
	}
	if !n.CIDR.IsValid() {
		r.fail("cidr")
	}
	t.Networks = append(t.Networks, n)
}

// inheritImpairments gives each NIC its network's impairment unless it has its own.
func (t *Topology) inheritImpairments() {
	for i := range t.Machines {
		for j := range t.Machines[i].NICs {
			nic := &t.Machines[i].NICs[j]
			if nic.Impair != nil {
				continue
			}
			if n, ok := t.Network(nic.Network); ok {
				nic.Impair = n.Impair
			}
		}
	}
}

func (e *evaluator) tunnel(t *Topology, b *block, inst *instance) Tunnel {
	r := e.reader(b, inst)
	tun := Tunnel{Noun: r.noun, Range: b.rng, Type: r.oneOf("type", defaultTunnel, "ipip", "gre", "gue"),
		Checksum: r.oneOf("checksum", defaultChecksum, "none", "full", "remote"),
		Family:   r.oneOf("family", "", "ipv4", "ipv6"), From: r.handle("from", addr.Director)}
	if tun.Type == "gue" {
		tun.Port = guePort
	}
	if b.args["count"] != nil || b.args["for_each"] != nil {
		tun.To = r.handle("to", addr.Backend)
	} else if to, err := addr.ParseNoun(keyName(inst.key)); err == nil {
		tun.To = to
		r.raw("to") // for its place; the instances were made from it
	}
	from, okFrom := t.Machine(tun.From)
	to, okTo := t.Machine(tun.To)
	if okFrom && okTo {
		tun.Remote, tun.Local = t.facing(from, to, tun.Family == "ipv6")
	}
	return tun
}

func keyName(k addr.Key) string {
	s, _ := k.AsName()
	return s
}

// primary is Address without a panic for a machine that is broken.
func (m Machine) primary() netip.Addr {
	if len(m.NICs) == 0 || len(m.NICs[0].Addresses) == 0 {
		return netip.Addr{}
	}
	return m.Address()
}
