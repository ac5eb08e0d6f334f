package replay

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/load"
)

func TestSent(t *testing.T) {
	client, vip := netip.MustParseAddr("198.18.0.128"), netip.MustParseAddr("198.18.0.101")
	query := func(port uint16, protocol, backend string) load.Query {
		return load.Query{N: 1, Client: client, Port: port, VIP: vip, Protocol: protocol, Backend: backend}
	}
	from := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(client, port) }
	to := netip.AddrPortFrom(vip, 53)
	ignore := cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})
	got, err := Sent([]load.Query{query(7, "udp", "backend.ns[0]")}, nil, 53)
	if d := cmp.Diff([]Packet{{N: 1, Client: from(7), VIP: to, Protocol: "udp", Backend: "backend.ns[0]"}}, got, ignore); d != "" || err != nil {
		t.Error(err, d)
	}
	segments := []load.Segment{{N: 1, Client: from(7), VIP: to, Flags: "syn"}, {N: 2, Client: from(8), VIP: to, Flags: "fin,ack"}, {N: 3, Client: from(9), VIP: to, Flags: "none"}}
	got, err = Sent([]load.Query{query(7, "tcp", "backend.ns[0]"), query(7, "tcp", ""), query(8, "tcp", "backend.ns[0]"), query(8, "tcp", "backend.ns[1]")}, segments, 53)
	want := []Packet{{N: 1, Client: from(7), VIP: to, Protocol: "tcp", Flags: ipvsmodel.SYN, Backend: "backend.ns[0]"},
		{N: 2, Client: from(8), VIP: to, Protocol: "tcp", Flags: ipvsmodel.FIN | ipvsmodel.ACK}, {N: 3, Client: from(9), VIP: to, Protocol: "tcp"}}
	if d := cmp.Diff(want, got, ignore); d != "" || err != nil {
		t.Error(err, d)
	}
	segments[0].Flags = "odd"
	if _, err := Sent(nil, segments, 53); err == nil {
		t.Error("flags that are none were read")
	}
}
