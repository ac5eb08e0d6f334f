package sighting

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/golden"
)

// capture is what the machines of a real lab saw of a proof's queries. The files in
// testdata were written by a proof on VMs.
type capture struct {
	Cards    []Card
	GUEPorts []uint16 `json:"gue_ports"`
	Queries  []Asked
	Frames   []Frame
}

func load(t testing.TB, name string) *capture {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{}
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *capture) path(i int) Path {
	return Read(c.Cards, c.Frames, c.GUEPorts, nil).Path(c.Queries[i])
}

func (c *capture) mac(n addr.Noun) string {
	i := slices.IndexFunc(c.Cards, func(k Card) bool { return k.Node == n })
	return c.Cards[i].MAC
}

// text shows a path for people.
func text(p Path) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s → %s → %s → %s, %s: tunnel %q, %d around the query, outer %v → %v; answer from %v, straight back %v, whole %v\n",
		p.Client, p.VIP, p.Director, p.Backend, p.Forward, p.Tunnel, p.Encapsulations, p.OuterSource, p.OuterDestination, p.Source, p.StraightBack, p.Whole)
	for _, h := range p.Hops {
		fmt.Fprintf(&b, "  %s %s %s, %s on %s, %d bytes:", h.Leg, h.Direction, h.Node, h.Device, h.Network, h.Length)
		for _, ip := range h.Headers {
			fmt.Fprintf(&b, " [%s → %s ttl %d length %d %s]", ip.Source, ip.Destination, ip.TTL, ip.Length, ip.Carries)
		}
		b.WriteString("\n")
	}
	for _, d := range p.Defects {
		fmt.Fprintf(&b, "  %s at %s: %s\n", d.Name, d.Node, d.Detail)
	}
	return b.String()
}

// What machines saw in labs with each way of forwarding comes to whole paths without
// a defect, hop for hop.
func TestPathsOfRealCaptures(t *testing.T) {
	for _, name := range []string{"tunnels", "direct", "masquerade", "ipv6-ipip", "ipv6-direct", "behind-nat", "tcp"} {
		c := load(t, name)
		var b strings.Builder
		for i := range c.Queries {
			p := c.path(i)
			if !p.Whole || len(p.Defects) > 0 || p.StraightBack != (p.Forward != forwardMasquerade) {
				t.Errorf("%s, query %d: want a whole path without defects", name, i)
			}
			b.WriteString(text(p))
		}
		golden.Check(t, name+".paths.txt", b.String())
	}
}

// A router that masquerades may write other ports over those of the clients, and two
// clients may have drawn the same one: each path is whole and has its own frames only.
func TestPathsThroughOtherPorts(t *testing.T) {
	for _, equal := range []bool{false, true} {
		c := load(t, "behind-nat")
		out := netip.MustParseAddr("198.19.40.1")
		want := map[uint16]uint16{c.Queries[0].ClientPort: 1024, c.Queries[1].ClientPort: 1025}
		old := c.Queries[1].ClientPort
		if equal { // the first one keeps its port
			want[c.Queries[0].ClientPort] = c.Queries[0].ClientPort
			c.Queries[1].ClientPort = c.Queries[0].ClientPort
		}
		for i := range c.Frames {
			f := &c.Frames[i]
			p, ok := Decode(f.Bytes, nil)
			if !ok || p.Transport != "udp" {
				continue
			}
			ports := f.Bytes[14+20*len(p.Headers):]
			for _, e := range []struct {
				end netip.AddrPort
				at  []byte
			}{{p.Source(), ports}, {p.Destination(), ports[2:]}} {
				if to := want[e.end.Port()]; to != 0 && e.end.Addr() == out {
					binary.BigEndian.PutUint16(e.at, to)
				} else if e.end.Port() == old {
					binary.BigEndian.PutUint16(e.at, c.Queries[1].ClientPort)
				}
			}
		}
		for i, q := range c.Queries {
			p := c.path(i)
			if !p.Whole || !p.StraightBack || len(p.Defects) > 0 || len(p.Hops) != 10 || p.Hops[0].SourcePort != q.ClientPort || p.Hops[4].SourcePort == 0 {
				t.Errorf("equal ports %v, query %d:\n%s", equal, i, text(p))
				continue
			}
			for hop, port := range map[int]uint16{2: p.Hops[2].SourcePort, 6: p.Hops[6].DestPort} {
				if i == 1 && port != 1025 || i == 0 && port != map[bool]uint16{false: 1024, true: q.ClientPort}[equal] {
					t.Errorf("equal ports %v, query %d: hop %d has port %d", equal, i, hop, port)
				}
			}
		}
	}
}

// Two queries of a client to different VIPs may have had the same port: each path has
// its own frames only.
func TestPathsOfOnePort(t *testing.T) {
	for _, name := range []string{"direct", "tcp"} {
		c := load(t, name)
		first := c.Queries[0]
		second := first
		second.VIP = netip.MustParseAddr("198.18.255.1")
		from, to := first.VIP.As4(), second.VIP.As4()
		for _, f := range slices.Clone(c.Frames) {
			p, ok := Decode(f.Bytes, nil)
			if !ok || first.leg(p) == "" {
				continue
			}
			f.Bytes = bytes.ReplaceAll(f.Bytes, from[:], to[:])
			transport := f.Bytes[14+20*len(p.Headers):]
			switch {
			case p.Transport == "udp":
				transport[8] ^= 0xff // the id
			case transport[13]&0x10 == 0: // SYN
				transport[4] ^= 0xff
			default:
				transport[8] ^= 0xff
			}
			c.Frames = append(c.Frames, f)
		}
		c.Queries = []Asked{first, second}
		for i, q := range c.Queries {
			p := c.path(i)
			if !p.Whole || !p.StraightBack || len(p.Defects) > 0 || p.Source != q.VIP {
				t.Errorf("%s, query %d:\n%s", name, i, text(p))
			}
		}
	}
}

// The token of a query that is cut off is not taken for one.
func TestTokens(t *testing.T) {
	var udp, tcp int
	for _, name := range []string{"behind-nat", "tcp"} {
		c := load(t, name)
		for _, f := range c.Frames {
			p, ok := Decode(f.Bytes, nil)
			if !ok || p.Token == "" {
				continue
			}
			if p.Transport == "tcp" {
				tcp++
				if len(p.Token) != 4 {
					t.Errorf("token %x", p.Token)
				}
				continue
			}
			udp++
			if !strings.HasSuffix(p.Token, "\x02id\x06server\x00\x00\x10\x00\x03") {
				t.Errorf("token %q", p.Token)
			}
			end := 14 + 20*len(p.Headers) + 8 + 12 + len(p.Token) - 2
			if cut, _ := Decode(f.Bytes[:end-1], nil); cut.Token != "" || cut.SourcePort == 0 {
				t.Errorf("cut off: %+v", cut)
			}
		}
	}
	if udp == 0 || tcp == 0 {
		t.Errorf("%d tokens over UDP, %d over TCP", udp, tcp)
	}
}

// TestFollowsNoClock: the machines' clocks may be hours apart.
func TestFollowsNoClock(t *testing.T) {
	c := load(t, "tunnels")
	for i := range c.Frames {
		f := &c.Frames[i]
		f.Time = f.Time.Add(time.Duration(len(f.Node.String())%5) * time.Hour)
	}
	if p := c.path(0); !p.Whole || len(p.Hops) != 6 {
		t.Errorf("with clocks that differ:\n%s", text(p))
	}
}

// each calls f for the frames of a query with what they are of it.
func (c *capture) each(a Asked, do func(f *Frame, leg string)) {
	for i := range c.Frames {
		f := &c.Frames[i]
		if p, ok := Decode(f.Bytes, c.GUEPorts); ok {
			if leg := a.leg(p); leg != "" {
				do(f, leg)
			}
		}
	}
}

// behind changes what lies between director and backend, as both saw it.
func (c *capture) behind(a Asked, change func([]byte) []byte) {
	c.each(a, func(f *Frame, leg string) {
		if leg == Query && (f.Node == a.Director && f.Out || f.Node == a.Backend) {
			f.Bytes = change(f.Bytes)
			f.Length = len(f.Bytes)
		}
	})
}

func setMAC(b []byte, text string) {
	for i, part := range strings.Split(text, ":") {
		var v byte
		fmt.Sscanf(part, "%x", &v)
		b[i] = v
	}
}

// Each thing that may go wrong, made of the frames of the real lab.
func TestDefects(t *testing.T) {
	const ip = 14 // where the IP header begins
	var b strings.Builder
	for _, c := range []struct {
		what, want string
		change     func(c *capture, a *Asked)
	}{
		{"an outer header around another", DoubleEncapsulation, func(c *capture, a *Asked) {
			c.behind(*a, func(f []byte) []byte {
				outer := slices.Clone(f[ip : ip+20])
				outer[9] = protoIPv4
				return slices.Concat(f[:ip], outer, f[ip:])
			})
		}},
		{"another tunnel", OtherTunnel, func(_ *capture, a *Asked) { a.Tunnel = GRE }},
		{"another end", OtherTunnel, func(_ *capture, a *Asked) { a.OuterDestination = netip.MustParseAddr("198.19.30.99") }},
		{"no tunnel", OtherTunnel, func(c *capture, a *Asked) {
			c.behind(*a, func(f []byte) []byte { return slices.Concat(f[:ip], f[ip+20:]) })
		}},
		{"a tunnel where none was asked for", OtherTunnel, func(_ *capture, a *Asked) { a.Tunnel, a.Forward = "", "direct" }},
		{"back by the director", ThroughDirector, func(c *capture, a *Asked) {
			var more []Frame
			c.each(*a, func(f *Frame, leg string) {
				if leg != Answer {
					return
				}
				f.Bytes = slices.Clone(f.Bytes)
				other := *f
				other.Node = a.Director
				if f.Node == a.Backend {
					setMAC(f.Bytes, c.mac(a.Director))
					other.Out = false
				} else {
					setMAC(f.Bytes[6:], c.mac(a.Director))
					other.Out = true
				}
				other.Bytes = f.Bytes
				more = append(more, other)
			})
			c.Frames = append(c.Frames, more...)
		}},
		{"the real server's own address", WrongSource, func(c *capture, a *Asked) {
			c.each(*a, func(f *Frame, leg string) {
				if leg == Answer {
					copy(f.Bytes[ip+12:], a.Real.Addr().AsSlice())
				}
			})
		}},
		{"a backend that answers ARP", ARPTheft, func(c *capture, a *Asked) {
			arp := make([]byte, 42)
			setMAC(arp, c.mac(a.Client))
			setMAC(arp[6:], c.mac(a.Backend))
			copy(arp[12:], []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2})
			setMAC(arp[22:], c.mac(a.Backend))
			copy(arp[28:], a.VIP.AsSlice())
			c.Frames = append(c.Frames, Frame{Node: a.Client, Device: "wire", Bytes: arp})
		}},
		{"queries straight to a backend", ARPTheft, func(c *capture, a *Asked) {
			c.each(*a, func(f *Frame, leg string) {
				if leg == Query && f.Node == a.Client {
					setMAC(f.Bytes, c.mac(a.Backend))
				}
			})
		}},
		{"pieces", Fragmented, func(c *capture, a *Asked) {
			c.behind(*a, func(f []byte) []byte { f[ip+6] |= 0x20; return f })
		}},
		{"a packet that does not fit", TooBig, func(c *capture, a *Asked) {
			var quoted []byte
			c.behind(*a, func(f []byte) []byte { quoted = f; return f })
			head := slices.Clone(quoted[:ip+20])
			head[ip+9] = protoICMP
			icmp := append(head, 3, 4, 0, 0, 0, 0, 5, 0)
			c.Frames = append(c.Frames, Frame{Node: a.Director, Device: "wire", Bytes: append(icmp, quoted[ip:ip+28]...)})
		}},
	} {
		shown := load(t, "tunnels")
		a := shown.Queries[0]
		c.change(shown, &a)
		p := Read(shown.Cards, shown.Frames, shown.GUEPorts, nil).Path(a)
		if !p.Has(c.want) {
			t.Errorf("%s: want %s\n%s", c.what, c.want, text(p))
		}
		for _, d := range p.Defects {
			fmt.Fprintf(&b, "%s:\n  %s at %s: %s\n", c.what, d.Name, d.Node, d.Detail)
		}
	}
	golden.Check(t, "defects.txt", b.String())
}

// Without the director's frames a path is not said to be whole, nor straight.
func TestGapsProveNothing(t *testing.T) {
	c := load(t, "tunnels")
	c.Frames = slices.DeleteFunc(c.Frames, func(f Frame) bool { return f.Node == c.Queries[0].Director })
	p := c.path(0)
	if p.Whole || p.StraightBack || len(p.Defects) > 0 {
		t.Error(text(p))
	}
	if p.Tunnel != IPIP || p.Encapsulations != 1 {
		t.Errorf("the backend has seen the outer header:\n%s", text(p))
	}
}

// ICMP "too big" and fragments as a kernel sent them, in the captures of package load.
func TestDecodesRealTrouble(t *testing.T) {
	for name, good := range map[string]func(*Packet) bool{
		"too-big":   func(p *Packet) bool { return p.TooBig && p.About != nil && p.About.Inner().Destination.IsValid() },
		"fragments": func(p *Packet) bool { return p.Inner().Fragment },
	} {
		data, err := os.ReadFile("../load/testdata/captures/" + name + ".pcap")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for data = data[24:]; len(data) >= 16; {
			size := binary.LittleEndian.Uint32(data[8:])
			if p, ok := Decode(data[16:16+size], nil); ok && good(p) {
				n++
			}
			data = data[16+size:]
		}
		if n == 0 {
			t.Errorf("%s: none was found", name)
		}
	}
}

// Headers that no lab of the tests has.
func TestDecodeHeaders(t *testing.T) {
	c := load(t, "tunnels")
	inner := func() []byte { // the IP packet as the client sent it
		var out []byte
		c.each(c.Queries[0], func(f *Frame, leg string) {
			if f.Node == c.Queries[0].Client && leg == Query {
				out = slices.Clone(f.Bytes[14:])
			}
		})
		return out
	}()
	frame := func(protocol byte, between ...byte) []byte {
		head := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2}
		return slices.Concat(make([]byte, 12), []byte{8, 0}, head, between, inner)
	}
	udp := []byte{0x80, 0, 0x17, 0xc0, 0, 0, 0, 0} // to port 6080
	for name, tc := range map[string]struct {
		frame []byte
		want  string
	}{
		"GRE with key and checksum": {frame(protoGRE, 0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7), GRE},
		"GRE of another version":    {frame(protoGRE, 0, 1, 8, 0), ""},
		"GRE of Ethernet":           {frame(protoGRE, 0, 0, 0x65, 0x58), ""},
		"GUE with options":          {frame(protoUDP, append(slices.Clone(udp), 1, 4, 0, 0, 0, 0, 0, 0)...), GUE},
		"GUE version 1":             {frame(protoUDP, udp...), GUE},
		"a GUE control message":     {frame(protoUDP, append(slices.Clone(udp), 0x20, 4, 0, 0)...), ""},
		"IPIP":                      {frame(protoIPv4), IPIP},
	} {
		p, ok := Decode(tc.frame, []uint16{6080})
		if !ok || p.Headers[0].Carries != tc.want || (tc.want != "") != (len(p.Headers) == 2) {
			t.Errorf("%s: %+v, want %q", name, p, tc.want)
		}
		if tc.want != "" && (p.Transport != "udp" || p.DestPort != 53) {
			t.Errorf("%s: inside is %s to port %d", name, p.Transport, p.DestPort)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"tunnels", "ipv6-ipip", "tcp"} {
		for _, frame := range load(f, name).Frames {
			f.Add(frame.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := Decode(b, []uint16{6080})
		if ok && len(p.Headers) == 0 && !p.Claims.IsValid() {
			t.Errorf("a frame with nothing in it: %x", b)
		}
		for _, h := range p.headers() {
			if !h.Source.IsValid() || !h.Destination.IsValid() {
				t.Errorf("a header without addresses: %+v", h)
			}
		}
	})
}

func (p *Packet) headers() []Header {
	if p == nil {
		return nil
	}
	return p.Headers
}
