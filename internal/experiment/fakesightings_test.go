package experiment

import (
	"net"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
)

// fakeSightings are the watches for frames. What the fake shows is the way through an
// IPIP tunnel on one network; of other ways its machines see nothing.
type fakeSightings struct {
	running map[addr.Noun]*proto.SightingsResult
	detour  string    // what is wrong with the way
	at      addr.Noun // the backend whose way it is
	dropped uint64    // of the director
	lost    bool      // what is sent from now on arrives nowhere
}

func (f *fakeLab) sightingsStart(n addr.Noun) {
	if f.sightings.running == nil {
		f.sightings.running = map[addr.Noun]*proto.SightingsResult{}
	}
	f.sightings.running[n] = &proto.SightingsResult{}
}

func (f *fakeLab) sightingsStop(n addr.Noun) (any, error) {
	r := f.sightings.running[n]
	if r == nil {
		return nil, guestError(proto.CodeNotFound, proto.SightingsStop.Op, "no watch of this name is going on")
	}
	delete(f.sightings.running, n)
	if n == f.top.Services[0].Director {
		r.Dropped = f.sightings.dropped
	}
	return *r, nil
}

// sight lets two machines see a frame that one sends the other.
func (f *fakeLab) sight(from, to addr.Noun, parts ...gopacket.SerializableLayer) {
	mac := func(n addr.Noun) net.HardwareAddr {
		m, _ := net.ParseMAC(f.mac(n))
		return m
	}
	eth := &layers.Ethernet{SrcMAC: mac(from), DstMAC: mac(to), EthernetType: layers.EthernetTypeIPv4}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, append([]gopacket.SerializableLayer{eth}, parts...)...); err != nil {
		f.t.Error(err)
	}
	for _, n := range []addr.Noun{from, to} {
		if f.sightings.lost && n == to {
			continue
		}
		if r := f.sightings.running[n]; r != nil {
			f.clock = f.clock.Add(time.Microsecond)
			r.Frames = append(r.Frames, proto.Sighting{Device: f.layout.Machines[n].NICs[0].Device, Out: n == from,
				Time: f.clock, Length: len(buf.Bytes()), Frame: append([]byte(nil), buf.Bytes()...)})
		}
	}
}

func header(protocol layers.IPProtocol, from, to netip.Addr, ttl uint8) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: ttl, Protocol: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
}

// sightQuery shows the way of a query that is scheduled, as far as it comes.
func (f *fakeLab) sightQuery(client lang.Machine, port uint16, vip netip.Addr, backend addr.Noun) {
	svc := f.top.Services[0]
	m, _ := f.top.Machine(backend)
	if svc.Forward != "tunnel" || len(f.top.Networks) != 1 || !f.via.IsZero() || !vip.Is4() {
		return
	}
	detour := ""
	if f.sightings.at == backend {
		detour = f.sightings.detour
	}
	d, _ := f.top.Machine(svc.Director)
	up := func(ttl uint8) []gopacket.SerializableLayer {
		return []gopacket.SerializableLayer{header(layers.IPProtocolUDP, client.Address(), vip, ttl),
			&layers.UDP{SrcPort: layers.UDPPort(port), DstPort: layers.UDPPort(svc.Port)}, gopacket.Payload("0123456789ab")}
	}
	outer := header(layers.IPProtocolIPv4, d.Address(), m.Address(), 64)
	tunnelled := append([]gopacket.SerializableLayer{outer}, up(63)...)
	answer := []gopacket.SerializableLayer{header(layers.IPProtocolUDP, vip, client.Address(), 64),
		&layers.UDP{SrcPort: layers.UDPPort(svc.Port), DstPort: layers.UDPPort(port)}, gopacket.Payload("0123456789ab")}
	switch detour {
	case "twice":
		tunnelled = append([]gopacket.SerializableLayer{header(layers.IPProtocolIPv4, d.Address(), m.Address(), 64)}, tunnelled...)
	case "without a tunnel":
		tunnelled = tunnelled[1:]
	case "other end":
		outer.SrcIP = netip.MustParseAddr("198.18.0.99").AsSlice()
	case "wrong source":
		answer[0] = header(layers.IPProtocolUDP, m.Address(), client.Address(), 64)
	case "fragments":
		outer.Flags = layers.IPv4MoreFragments
	}
	broken := f.broken[backend]
	f.sight(client.Noun, svc.Director, up(64)...)
	f.sightings.lost = broken == "filtered"
	f.sight(svc.Director, backend, tunnelled...)
	f.sightings.lost = broken == "lost on return"
	defer func() { f.sightings.lost = false }()
	switch broken {
	case "filtered", "no receiver", "rp_filter", "no vip", "not listening":
		return
	case "own source":
		answer[0] = header(layers.IPProtocolUDP, m.Address(), client.Address(), 64)
	}
	if detour == "too big" {
		f.sight(backend, svc.Director, header(layers.IPProtocolICMPv4, m.Address(), d.Address(), 64),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 4)}, outer, up(63)[0], up(63)[1], up(63)[2])
	}
	if detour == "through the director" {
		f.sight(backend, svc.Director, answer...)
		answer[0] = header(layers.IPProtocolUDP, vip, client.Address(), 63)
		f.sight(svc.Director, client.Noun, answer...)
		return
	}
	f.sight(backend, client.Noun, answer...)
}
