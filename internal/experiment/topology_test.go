package experiment

import (
	"net/netip"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// plain lets cmp look at values that hide their fields.
var plain = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, addr.Noun{}), cmpopts.EquateEmpty()}

var (
	netLAN   = addr.N(addr.Network, "lan")
	clientC  = addr.N(addr.Client, "c").At(addr.Index(0))
	director = addr.N(addr.Director, "lb")
	serviceS = addr.N(addr.Service, "dns")
)

func backend(i int) addr.Noun { return addr.N(addr.Backend, "ns").At(addr.Index(i)) }

func tunnelTo(b addr.Noun) addr.Noun {
	return addr.N(addr.Tunnel, "lb-ns").At(addr.Name(b.String()))
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// paperTopology is the study of the paper: one client, one director, three
// backends behind IPIP, ten schedulers, five blocks.
func paperTopology() *lang.Topology {
	machine := func(n addr.Noun, address string) lang.Machine {
		return lang.Machine{Noun: n, Addresses: 1, NICs: []lang.NIC{{Network: netLAN, Addresses: []netip.Addr{ip(address)}}}}
	}
	zone := lang.Zone{Noun: addr.N(addr.Zone, "lab"), Name: "lab.test"}
	for _, name := range []string{"host0", "host1", "host2", "host3"} {
		zone.Records = append(zone.Records, lang.Record{Name: name, Type: "A", TTL: 60, Values: []string{"192.0.2." + name[4:]}})
	}
	t := &lang.Topology{
		Lab:      lang.Lab{Name: "lvs-tun-dns"},
		Networks: []lang.Network{{Noun: netLAN, CIDR: netip.MustParsePrefix("198.18.0.0/24"), MTU: 1500}},
		Machines: []lang.Machine{machine(clientC, "198.18.0.128"), machine(director, "198.18.0.20")},
		Zones:    []lang.Zone{zone},
	}
	svc := lang.Service{
		Noun: serviceS, Director: director, VIPs: []netip.Addr{ip("198.18.0.101")}, Port: 53,
		Protocol: "udp", Scheduler: "rr", Forward: "tunnel",
	}
	for i, address := range []string{"198.18.0.30", "198.18.0.31", "198.18.0.32"} {
		m := machine(backend(i), address)
		m.Serves = []addr.Noun{zone.Noun}
		t.Machines = append(t.Machines, m)
		t.Tunnels = append(t.Tunnels, lang.Tunnel{
			Noun: tunnelTo(backend(i)), Type: "ipip", From: director, To: backend(i), Local: ip(address), Remote: ip("198.18.0.20"),
		})
		svc.RealServers = append(svc.RealServers, lang.RealServer{
			Backend: backend(i), Address: ip(address), Port: 53, Tunnel: tunnelTo(backend(i)), Weight: 1,
		})
	}
	t.Services = []lang.Service{svc}
	t.Experiments = []lang.Experiment{{
		Noun: addr.N(addr.Experiment, "schedulers"), Service: serviceS, Clients: []addr.Noun{clientC},
		Iterations: 5, Seed: 2026, Isolation: "flush",
		Factors: []lang.Factor{factorOf("scheduler", "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq")},
		Load:    lang.Load{Kind: "dnsperf", Queries: 12, Sockets: 1, Timeout: 5 * time.Second, Protocol: "udp"},
	}}
	return t
}

// factorOf makes a factor from Go values.
func factorOf(name string, values ...any) lang.Factor {
	f := lang.Factor{Name: name}
	for _, v := range values {
		f.Values = append(f.Values, ctyOf(v))
	}
	return f
}

func ctyOf(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case int:
		return cty.NumberIntVal(int64(v))
	case float64:
		return cty.NumberFloatVal(v)
	case []int:
		list := make([]cty.Value, len(v))
		for i, n := range v {
			list[i] = cty.NumberIntVal(int64(n))
		}
		return cty.TupleVal(list)
	case []string:
		if len(v) == 0 {
			return cty.ListValEmpty(cty.String)
		}
		list := make([]cty.Value, len(v))
		for i, s := range v {
			list[i] = cty.StringVal(s)
		}
		return cty.ListVal(list)
	}
	panic("no cty value for this type")
}
