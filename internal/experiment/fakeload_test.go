package experiment

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// fakeCapture is a capture that is going on.
type fakeCapture struct {
	buf     bytes.Buffer
	w       *pcapgo.Writer
	packets uint64
}

func (f *fakeLab) captureStart(n addr.Noun, spec proto.CaptureSpec) error {
	if len(f.captures[n]) > 0 {
		return guestError(proto.CodeInvalid, "capture.start", "a capture is going on")
	}
	if dev := f.layout.Machines[n].NICs[0].Device; spec.Dev != dev || spec.Port != 53 {
		return guestError(proto.CodeNotFound, "capture.start", "no device "+spec.Dev)
	}
	c := &fakeCapture{}
	c.w = pcapgo.NewWriterNanos(&c.buf)
	if err := c.w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		return err
	}
	f.captures[n] = map[string]*fakeCapture{spec.ID: c}
	return nil
}

func (f *fakeLab) captureStop(n addr.Noun, ref proto.CaptureRef) (any, error) {
	c, ok := f.captures[n][ref.ID]
	if !ok {
		return nil, guestError(proto.CodeNotFound, "capture.stop", "no capture "+ref.ID)
	}
	delete(f.captures[n], ref.ID)
	return proto.CaptureResult{Packets: c.packets, Dropped: f.dropped, Pcap: c.buf.Bytes()[:c.buf.Len()-f.cutCapture]}, nil
}

// frame puts a datagram into the client's captures.
func (f *fakeLab) frame(n addr.Noun, at time.Time, srcMAC, dstMAC string, src, dst netip.AddrPort, msg *dns.Msg) {
	payload, err := msg.Pack()
	if err != nil {
		f.t.Error(err)
		return
	}
	hw := func(s string) net.HardwareAddr { m, _ := net.ParseMAC(s); return m }
	eth := &layers.Ethernet{SrcMAC: hw(srcMAC), DstMAC: hw(dstMAC), EthernetType: layers.EthernetTypeIPv4}
	ip4 := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: src.Addr().AsSlice(), DstIP: dst.Addr().AsSlice()}
	udp := &layers.UDP{SrcPort: layers.UDPPort(src.Port()), DstPort: layers.UDPPort(dst.Port())}
	if err := udp.SetNetworkLayerForChecksum(ip4); err != nil {
		f.t.Error(err)
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip4, udp, gopacket.Payload(payload)); err != nil {
		f.t.Error(err)
	}
	for _, c := range f.captures[n] {
		ci := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(buf.Bytes()), Length: len(buf.Bytes())}
		if err := c.w.WritePacket(ci, buf.Bytes()); err != nil {
			f.t.Error(err)
		}
		c.packets++
	}
}

// dnsperf sends the queries of a file round robin over its sockets, one a
// millisecond, each answered after 0.2 ms.
func (f *fakeLab) dnsperf(n addr.Noun, spec proto.DNSPerfSpec) (any, error) {
	opt := map[string]string{}
	for i := 0; i+1 < len(spec.Args); i++ {
		if strings.HasPrefix(spec.Args[i], "-") {
			opt[spec.Args[i]] = spec.Args[i+1]
		}
	}
	vip, err := netip.ParseAddr(opt["-s"])
	if err != nil {
		return nil, guestError(proto.CodeInvalid, "load.dnsperf", "no server in "+fmt.Sprint(spec.Args))
	}
	body, ok := f.files[n.String()+opt["-d"]]
	if !ok {
		return nil, guestError(proto.CodeNotFound, "load.dnsperf", "no query file "+opt["-d"])
	}
	f.identify = opt["-E"] == "3:00"
	sockets := 1
	if c, err := strconv.Atoi(opt["-c"]); err == nil {
		sockets = c
	}
	passes := 1
	if c, err := strconv.Atoi(opt["-n"]); err == nil {
		passes = c
	}
	m, _ := f.top.Machine(n)
	base := f.port + 1
	f.port += uint16(sockets)
	f.begin(n, proto.DNSPerf.Op, spec.StartNS)
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	completed := 0
	total := len(lines) * passes
	for i := range total {
		name, kind, _ := strings.Cut(lines[i%len(lines)], " ")
		src := netip.AddrPortFrom(m.Address(), base+uint16(i%sockets))
		completed += f.exchange(n, i, src, netip.AddrPortFrom(vip, 53), name, strings.TrimSpace(kind))
	}
	end := f.clock.Add(time.Duration(total) * time.Millisecond)
	f.clock = end
	out := fmt.Sprintf("DNS Performance Testing Tool\nVersion 2.10.0\n\nStatistics:\n\n  Queries sent:         %d\n  Queries completed:    %d (%.2f%%)\n  Queries lost:         %d (%.2f%%)\n\n"+
		"  Response codes:       NOERROR %d (100.00%%)\n  Average packet size:  request 28, response 100\n  Run time (s):         %.6f\n  Queries per second:   %.6f\n\n"+
		"  Average Latency (s):  0.000200 (min 0.000100, max 0.000300)\n  Latency StdDev (s):   0.000010\n\n"+f.status,
		total, completed, 100*float64(completed)/float64(total), total-completed, 100*float64(total-completed)/float64(total),
		completed, float64(total)/1000, 1000.0)
	if f.output != nil {
		out = f.output(out)
	}
	return proto.DNSPerfResult{Stdout: out, Exit: f.exit, Start: end, Wall: time.Duration(total) * time.Millisecond}, nil
}

// exchange is one query and what becomes of it; it returns the answers that
// dnsperf would count as completed.
func (f *fakeLab) exchange(n addr.Noun, i int, src, dst netip.AddrPort, name, kind string) int {
	var how fate
	if f.packet != nil {
		how = f.packet(i)
	}
	at := f.clock.Add(time.Duration(i) * time.Millisecond)
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), dns.StringToType[kind])
	q.Id = uint16(i)
	lb := f.top.Services[0].Director
	if how.lostEgress {
		return 0
	}
	hop := f.neighbour(dst.Addr())
	if !f.via.IsZero() {
		hop = f.mac(f.via)
	}
	f.frame(n, at, f.mac(n), hop, src, dst, q)
	if how.lostBefore {
		return 0
	}
	b := f.backendOf(dst.Addr())
	f.arrive(b, n, src, at)
	if b.IsZero() { // through the director
		f.nicRx[lb]++
		d := f.schedule(flow{src, dst.Addr()})
		if d < 0 || how.lostTunnel {
			return 0
		}
		b = f.backendOf(f.serviceAt(dst.Addr()).Destinations[d].Address)
		f.tunnelRx[b]++
	}
	if how.lostBackend {
		return 0
	}
	f.named[b].Requests++
	f.named[b].Queries++
	if how.mute {
		return 0
	}
	f.named[b].Responses++
	if how.lostReturn {
		return 0
	}
	a := f.answer(q, name, how.rcode)
	if f.identify && !how.nameless {
		a.SetEdns0(1232, false)
		a.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte(b.String()))}}
	}
	from := dst
	if how.source.IsValid() {
		from = netip.AddrPortFrom(how.source, dst.Port())
	}
	delay := 200*time.Microsecond + how.late
	mac := f.mac(b)
	if f.top.Services[0].Forward == "masquerade" {
		mac = f.mac(lb) // it translates the answer and sends it on
	}
	if !f.via.IsZero() {
		mac = hop
	}
	if how.stranger {
		mac = "02:00:00:00:99:99"
	}
	f.frame(n, at.Add(delay), mac, f.mac(n), from, src, a)
	if how.duplicate {
		f.frame(n, at.Add(delay+50*time.Microsecond), f.mac(b), f.mac(n), from, src, a)
	}
	return 1
}

// answer is what a server of the topology's zone says.
func (f *fakeLab) answer(q *dns.Msg, name string, rcode int) *dns.Msg {
	a := new(dns.Msg)
	a.SetRcode(q, rcode)
	a.Authoritative = true
	for _, z := range f.top.Zones {
		for _, r := range z.Records {
			if rcode == dns.RcodeSuccess && strings.EqualFold(strings.TrimSuffix(name, "."), r.Name+"."+z.Name) {
				for _, v := range r.Values {
					rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s %s", dns.Fqdn(name), r.TTL, r.Type, v))
					if err != nil {
						f.t.Error(err)
						continue
					}
					a.Answer = append(a.Answer, rr)
				}
			}
		}
	}
	return a
}
