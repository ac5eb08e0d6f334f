package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// behind makes of a run, whose packets came from the router's address, what the
// captures of two clients behind it show: own tells the client's address and port
// that stood behind each of the router's ports.
func behind(in Input, own func(netip.AddrPort) string) Input {
	in.Seen = map[netip.Addr]netip.Addr{netip.MustParseAddr("198.18.1.128"): netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.1.129"): netip.MustParseAddr("198.18.0.1")}
	for i := range in.Packets {
		in.Packets[i].Client = netip.MustParseAddrPort(own(in.Packets[i].Client))
	}
	return in
}

// odd ports are the second client's.
func byParity(p netip.AddrPort) string {
	return fmt.Sprintf("198.18.1.%d:%d", 128+p.Port()%2, p.Port())
}

// colliding is as byParity, but the second client's ports are those of the first,
// and the router has chosen the ones that the director sees.
func colliding(p netip.AddrPort) string {
	return fmt.Sprintf("198.18.1.%d:%d", 128+p.Port()%2, p.Port()&^1)
}

func natted(t *testing.T, s proto.IPVSService, own func(netip.AddrPort) string) Input {
	t.Helper()
	w := newWorld(t, s)
	for i := range 24 {
		w.send(fmt.Sprintf("198.18.0.1:%d", 40000+i%8), 0)
	}
	return behind(w.read(), own)
}

func TestBehindNAT(t *testing.T) {
	for _, scheduler := range []string{"rr", "wlc", "sh", "mh", "dh"} {
		in := natted(t, service(scheduler, "udp", 1, 1, 1), byParity)
		sent := in.Packets[0].Client
		if r := Run(in); r.Scope != Packets || r.Differs != "" || len(r.Limits) > 0 || *r.Rows != 8 || *r.RowsDiffer != 0 {
			t.Errorf("%s: %+v", scheduler, r)
		}
		if in.Packets[0].Client != sent {
			t.Error("the input has been changed")
		}
		in.Seen = nil // as if the director saw the clients
		if r := Run(in); r.Differs == "" {
			t.Errorf("%s: nobody notices that the addresses are others", scheduler)
		}
	}
	in := natted(t, flagged(service("sh", "udp", 1, 1, 1), "sh-port"), byParity)
	if r := Run(in); r.Scope != Packets || r.Differs != "" || *r.Rows != 8 {
		t.Errorf("sh-port: %+v", r)
	}
}

// Two of a group with one port: how many flows there are is known, and not which port
// the second has.
func TestEqualPortsBehindNAT(t *testing.T) {
	const why = "198.18.1.128:40000 and 198.18.1.129:40000 are both 198.18.0.1 for the director"
	for _, scheduler := range []string{"rr", "wlc", "sh", "mh"} {
		in := natted(t, service(scheduler, "udp", 1, 1, 1), colliding)
		r := Run(in)
		if r.Scope != Packets || r.Differs != "" || r.Rows != nil || !strings.Contains(strings.Join(r.Limits, ";"), why) {
			t.Errorf("%s: %+v", scheduler, r)
		}
		in.Packets[5].Backend = "backend.ns[0]" // a kernel that did otherwise
		in.Packets[6].Backend = "backend.ns[1]"
		if r := Run(in); r.Differs == "" {
			t.Errorf("%s: the difference is not found", scheduler)
		}
		in.Clients = 2
		if r := Run(in); scheduler == "rr" && (r.Scope != Counts || len(r.Limits) != 2) {
			t.Errorf("two clocks: %+v", r)
		}
	}
	r := Run(natted(t, flagged(service("sh", "udp", 1, 1, 1), "sh-port"), colliding))
	if r.Scope != None || !strings.Contains(strings.Join(r.Limits, ";"), why) {
		t.Errorf("sh-port: %+v", r)
	}
}

// Clients have clocks of their own: each one's rows tell one moment of reading.
func TestClocksOfClients(t *testing.T) {
	in := natted(t, service("sh", "udp", 1, 1, 1), byParity)
	for i := range in.Packets {
		if in.Packets[i].Client.Port()%2 == 1 {
			in.Packets[i].Time = in.Packets[i].Time.Add(2 * time.Second)
		}
	}
	slices.SortFunc(in.Packets, func(a, b Packet) int { return a.Time.Compare(b.Time) })
	if r := Run(in); r.Differs == "" {
		t.Error("one client's clock does not go wrong by itself")
	}
	in.Clients = 2
	if r := Run(in); r.Scope != Packets || r.Differs != "" || *r.Rows != 8 {
		t.Errorf("two clocks: %s %v %q", r.Scope, r.Limits, r.Differs)
	}
}
