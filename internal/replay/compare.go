package replay

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// firstPacket is the index of the first packet that another machine answered
// than the model sent it to; nil without one, or where the order is not known.
func (t *track) firstPacket() *int {
	if t.out.Scope != Packets {
		return nil
	}
	for i := range t.in.Packets {
		p, d := &t.in.Packets[i], t.decisions[i]
		if p.Backend == "" || !t.isBackend(p.Backend) {
			continue // nobody answered, or the director did in a backend's name
		}
		if !d.Backend.IsValid() || t.in.Names[d.Backend.Addr()] != p.Backend {
			return &i
		}
	}
	return nil
}

func (t *track) isBackend(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(t.in.Names)), name)
}

// conclude says the first difference, and writes the script for it.
func (t *track) conclude(first *int) {
	last := len(t.in.Packets)
	if first != nil {
		last = *first + 1
		t.out.Differs = t.packetText(*first)
	} else if t.out.Differs = t.countText(); t.out.Differs == "" {
		t.out.Differs = t.rowText
	}
	if t.out.Differs == "" {
		return
	}
	if text := t.changed(); text != "" {
		t.out.Differs += "; " + text
	}
	t.out.Script = t.script(last)
}

// packetText says what the model did with a packet and why, and what the kernel did.
func (t *track) packetText(i int) string {
	p, d := &t.in.Packets[i], t.decisions[i]
	return fmt.Sprintf("packet %d at %s from %s to %s %s: %s, the kernel sent it to %s", p.N, p.Time.UTC().Format("15:04:05.000000"),
		p.Client, p.Protocol, p.VIP, t.choice(p, d), short(p.Backend))
}

// choice is the model's word on a packet.
func (t *track) choice(p *Packet, d ipvsmodel.Decision) string {
	switch d.Why {
	case ipvsmodel.ByEntry:
		return fmt.Sprintf("by the model an entry holds the flow at %s", t.name(d.Backend.Addr()))
	case ipvsmodel.ByScheduler:
		return fmt.Sprintf("by the model %s chooses %s", t.scheduler(p.VIP), t.name(d.Backend.Addr()))
	case ipvsmodel.ByTemplate:
		return fmt.Sprintf("by the model the client's template has %s", t.name(d.Backend.Addr()))
	}
	return "by the model nobody gets it (" + d.Why.String() + ")"
}

func (t *track) scheduler(vip netip.AddrPort) string {
	for _, s := range t.in.Before {
		if s.FWMark != 0 || s.VIP == vip.Addr() {
			return s.Scheduler
		}
	}
	return "the scheduler"
}

func (t *track) name(a netip.Addr) string {
	if n := t.in.Names[a]; n != "" {
		return short(n)
	}
	return a.String()
}

func short(name string) string { return strings.TrimPrefix(name, "backend.") }

// countText compares the counters of the destinations, lowest address first.
func (t *track) countText() string {
	kernel, _ := t.counted()
	for _, a := range slices.SortedFunc(maps.Keys(kernel), netip.Addr.Compare) {
		if want := t.out.Backends[a].Conns; kernel[a] != want {
			return fmt.Sprintf("%s got %d connections, by the model %d", t.name(a), kernel[a], want)
		}
	}
	return ""
}

// changed says how the list of destinations has changed while the run went on.
func (t *track) changed() string {
	for _, b := range t.in.Before {
		i := slices.IndexFunc(t.in.After, func(s proto.IPVSService) bool { return s.IPVSKey == b.IPVSKey })
		if i < 0 {
			return "the service was gone after the run"
		}
		a := t.in.After[i]
		if a.Scheduler != b.Scheduler {
			return fmt.Sprintf("the scheduler was %s before the run and %s after it", b.Scheduler, a.Scheduler)
		}
		if was, is := list(b), list(a); was != is {
			return fmt.Sprintf("the list was %s before the run and %s after it: somebody has changed it", was, is)
		}
	}
	return ""
}

// list is the destinations with their weights, head first.
func list(s proto.IPVSService) string {
	var out []string
	for _, d := range s.Destinations {
		out = append(out, fmt.Sprintf("%s (weight %d)", d.Address, d.Weight))
	}
	return strings.Join(out, ", ")
}
