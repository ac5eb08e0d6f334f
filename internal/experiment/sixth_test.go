package experiment

import (
	"net/netip"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
)

// What the director has received is read from the counters of the service's family.
func TestDirectorReceivedByFamily(t *testing.T) {
	director := addr.N(addr.Director, "lb")
	before := proto.CounterSet{SNMP: map[string]uint64{"Ip.InReceives": 5, "Icmp.InMsgs": 1, "Ip6.InReceives": 100, "Icmp6.InMsgs": 10}}
	after := proto.CounterSet{SNMP: map[string]uint64{"Ip.InReceives": 45, "Icmp.InMsgs": 11, "Ip6.InReceives": 175, "Icmp6.InMsgs": 25}}
	for vip, want := range map[string]int64{"198.18.0.101": 30, "fd00:18::101": 60} {
		var out measured
		out.cast = &cast{lab: &Lab{Topology: &lang.Topology{}}, director: part{noun: director}, service: lang.Service{VIPs: []netip.Addr{netip.MustParseAddr(vip)}}}
		out.before = &baseline{counters: map[addr.Noun]proto.CounterSet{director: before}}
		out.after = map[addr.Noun]proto.CounterSet{director: after}
		if n := out.directorReceived(1000); n == nil || *n != want {
			t.Errorf("%s: %v, want %d", vip, n, want)
		}
	}
	var f findings
	judgeMachine(&f, director, after, before)
	if len(f.notes) != 4 {
		t.Errorf("all four counters have gone back: %q", f.notes)
	}
}
