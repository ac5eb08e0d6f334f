package replay

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// sixth is an IPv6 address whose four words give the IPv4 one.
func sixth(a netip.Addr) netip.Addr {
	const net = 0xfd000018
	b, four := [16]byte{}, a.As4()
	binary.BigEndian.PutUint32(b[:], net)
	binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(four[:])^net)
	return netip.AddrFrom16(b)
}

// sixthOf is the same run over IPv6.
func sixthOf(in Input) Input {
	port := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(sixth(a.Addr()), a.Port()) }
	list := func(list []proto.IPVSService) []proto.IPVSService {
		list = slices.Clone(list)
		for i := range list {
			list[i].VIP = sixth(list[i].VIP)
			list[i].Destinations = slices.Clone(list[i].Destinations)
			for k := range list[i].Destinations {
				list[i].Destinations[k].Address = sixth(list[i].Destinations[k].Address)
			}
		}
		return list
	}
	in.Before, in.After = list(in.Before), list(in.After)
	in.Packets, in.Conns = slices.Clone(in.Packets), slices.Clone(in.Conns)
	for i := range in.Packets {
		in.Packets[i].Client, in.Packets[i].VIP = port(in.Packets[i].Client), port(in.Packets[i].VIP)
	}
	for i := range in.Conns {
		c := &in.Conns[i]
		c.Client, c.Virtual, c.Dest = port(c.Client), port(c.Virtual), port(c.Dest)
	}
	names := map[netip.Addr]string{}
	for a, name := range in.Names {
		names[sixth(a)] = name
	}
	in.Names = names
	return in
}

func TestIPv6(t *testing.T) {
	for _, scheduler := range []string{"rr", "sh", "dh"} {
		in := newWorld(t, service(scheduler, "udp", 1, 1, 1)).ports(6, 30).read()
		four, six := Run(in), Run(sixthOf(in))
		if six.Scope != Packets || six.Differs != "" || six.Rows == nil || *six.Rows != *four.Rows {
			t.Errorf("%s: %+v", scheduler, six)
		}
		for a, c := range four.Backends {
			if got := six.Backends[sixth(a)]; got.Conns != c.Conns || *got.Packets != *c.Packets {
				t.Errorf("%s: %s has %+v, want %+v", scheduler, sixth(a), got, c)
			}
		}
	}
}

func TestIPv6Differs(t *testing.T) {
	in := sixthOf(newWorld(t, service("rr", "udp", 1, 1, 1)).ports(6, 30).read())
	in.Conns[0].Dest = netip.AddrPortFrom(sixth(netip.MustParseAddr("198.18.0.99")), 53)
	if r := Run(in); !strings.Contains(r.Differs, in.Conns[0].Client.String()) || strings.Contains(r.Differs, "198.18.0") {
		t.Errorf("%+v", r)
	}
}

func TestIPv6Unknown(t *testing.T) {
	in := sixthOf(newWorld(t, service("rr", "udp", 1, 1, 1)).ports(6, 30).read())
	twin := in
	twin.Packets = slices.Clone(in.Packets)
	b := twin.Packets[0].Client.Addr().As16() // other words, the same exclusive or
	b[4], b[8] = 1, 1
	twin.Packets[0].Client = netip.AddrPortFrom(netip.AddrFrom16(b), 40000)
	if r := Run(twin); r.Scope != None || !strings.Contains(strings.Join(r.Limits, ""), "look alike") {
		t.Errorf("two addresses, one hash: %+v", r)
	}
	wide := in
	wide.Before = slices.Clone(in.Before)
	wide.Before[0].Persistence, wide.Before[0].Netmask = 60, 64
	if r := Run(wide); r.Scope != None || !strings.Contains(strings.Join(r.Limits, ""), "by a network") {
		t.Errorf("persistence by a network: %+v", r)
	}
}
