package lang

import (
	"net/netip"

	"github.com/lvslab/lvslab/internal/addr"
)

// Translation is one router that gives packets its own address.
type Translation struct {
	By      addr.Noun
	Address netip.Addr // of the router, on the network outside: what others see
}

// FlowParameters begins the names of the kernel parameters that say how many flows
// a router that masquerades remembers, and for how long.
const FlowParameters = "net.netfilter.nf_conntrack_"

// Translated follows what a machine sends to an address and returns the routers
// that masquerade it, in their order: the last address is the one that the far end
// sees. The kernel takes the first address of the device by which a packet leaves
// (nf_nat_masquerade.c, nf_nat_masquerade_ipv4).
func (w Ways) Translated(t *Topology, m Machine, to netip.Addr) []Translation {
	var out []Translation
	for range t.Machines { // a way passes each once at most
		r, ok := w.Way(t, m, to)
		if !ok {
			return nil
		}
		if nic := m.NICs[r.NIC]; !m.Masquerade.IsZero() && nic.Network == m.Masquerade && len(nic.Addresses) > 0 {
			out = append(out, Translation{m.Noun, nic.Addresses[0]})
		}
		if r.Next.IsZero() {
			return out
		}
		if m, ok = t.Machine(r.Next); !ok {
			return nil
		}
	}
	return out
}

// Seen are the addresses under which a service sees clients that routers
// masquerade, by each of their own ones; nil when there are none.
func (t *Topology) Seen(s Service, clients []addr.Noun) map[netip.Addr]netip.Addr {
	var out map[netip.Addr]netip.Addr
	if len(s.VIPs) == 0 || !t.hides() {
		return nil
	}
	ways := Routes(t)
	for _, n := range clients {
		m, ok := t.Machine(n)
		if !ok || len(m.NICs) == 0 {
			continue
		}
		all := ways.Translated(t, m, s.VIPs[0])
		for _, a := range m.NICs[0].Addresses {
			if len(all) == 0 {
				break
			}
			if out == nil {
				out = map[netip.Addr]netip.Addr{}
			}
			out[a] = all[len(all)-1].Address
		}
	}
	return out
}

// hides reports whether any router masquerades.
func (t *Topology) hides() bool {
	for _, m := range t.Machines {
		if !m.Masquerade.IsZero() {
			return true
		}
	}
	return false
}
