package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// What moby/ipvs 1.1.0 cannot do or reads wrongly, in the numbers of
// include/uapi/linux/ip_vs.h.
const (
	cmdNewDest    = 5
	cmdSetDest    = 6
	cmdGetService = 4
	cmdDelDest    = 7
	cmdGetDest    = 8
	cmdGetConfig  = 13
	cmdGetInfo    = 15

	attrService, attrDest = 1, 2

	attrTimeoutTCP, attrTimeoutTCPFin, attrTimeoutUDP = 4, 5, 6

	svcAF, svcProtocol, svcAddr, svcPort, svcFWMark       = 1, 2, 3, 4, 5
	svcSched, svcFlags, svcTimeout, svcNetmask, svcStat64 = 6, 7, 8, 9, 12

	dstAddr, dstPort, dstForward, dstWeight, dstUpper, dstLower = 1, 2, 3, 4, 5, 6
	dstActive, dstInactive, dstPersistent                       = 7, 8, 9
	dstFamily, dstStat64, dstTunType, dstTunPort, dstTunFlags   = 11, 12, 13, 14, 15

	infoVersion, infoTabSize = 1, 2

	nestedMask = 0x3fff // NLA_TYPE_MASK
)

// genl is a client of the generic netlink family "IPVS". It opens a socket for
// each request: a dump that was given up half-way cannot spoil the next one.
type genl struct{ family uint16 }

// openGenl looks the family up without asking moby/ipvs, which remembers a
// failure for the life of the process and then reports success for everything.
func openGenl() (*genl, error) {
	f, err := netlink.GenlFamilyGet("IPVS")
	if err != nil {
		return nil, err
	}
	return &genl{family: f.ID}, nil
}

func (g *genl) request(cmd uint8, flags int, attrs ...*nl.RtAttr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(int(g.family), flags)
	req.AddData(header{cmd, 1, 0, 0})
	for _, a := range attrs {
		req.AddData(a)
	}
	return req
}

// ask sends a request and returns the attributes of each answer.
func (g *genl) ask(req *nl.NetlinkRequest) ([]attrs, error) {
	var msgs [][]byte
	var err error
	for range 3 { // a dump that the kernel marks as interrupted is repeated
		if msgs, err = req.Execute(unix.NETLINK_GENERIC, 0); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var all []attrs
	for _, m := range msgs {
		if len(m) < len(header{}) {
			return nil, fmt.Errorf("netlink answer of %d bytes", len(m))
		}
		a, err := parseAttrs(m[len(header{}):])
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// header is struct genlmsghdr: command, version and two reserved zeros.
type header [4]byte

// Len and Serialize make it part of a netlink request.
func (h header) Len() int          { return len(h) }
func (h header) Serialize() []byte { return h[:] }

// attrs are the attributes of one level, by type.
type attrs map[uint16][]byte

func parseAttrs(b []byte) (attrs, error) {
	out := attrs{}
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return nil, fmt.Errorf("netlink attribute of length %d in %d bytes", n, len(b))
		}
		out[binary.NativeEndian.Uint16(b[2:])&nestedMask] = b[4:n]
		b = b[min((n+3)&^3, len(b)):]
	}
	return out, nil
}

func (a attrs) u32(t uint16) uint32 {
	if v := a[t]; len(v) >= 4 {
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

func (a attrs) u16(t uint16) uint16 {
	if v := a[t]; len(v) >= 2 {
		return binary.NativeEndian.Uint16(v)
	}
	return 0
}

func (a attrs) u8(t uint16) uint8 {
	if v := a[t]; len(v) >= 1 {
		return v[0]
	}
	return 0
}

func (a attrs) be16(t uint16) uint16 {
	if v := a[t]; len(v) >= 2 {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (a attrs) text(t uint16) string { return unix.ByteSliceToString(a[t]) }

// counters reads a STATS64 attribute.
func (a attrs) counters(t uint16) (proto.IPVSCounters, error) {
	s, err := parseAttrs(a[t])
	if err != nil {
		return proto.IPVSCounters{}, err
	}
	u64 := func(t uint16) uint64 {
		if v := s[t]; len(v) >= 8 {
			return binary.NativeEndian.Uint64(v)
		}
		return 0
	}
	return proto.IPVSCounters{Conns: u64(1), InPackets: u64(2), OutPackets: u64(3), InBytes: u64(4), OutBytes: u64(5)}, nil
}

// keyAttr is the attribute that names a service.
func keyAttr(k proto.IPVSKey) (*nl.RtAttr, error) {
	a := nl.NewRtAttr(attrService|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(svcAF, nl.Uint16Attr(family(k)))
	if k.FWMark != 0 {
		a.AddRtAttr(svcFWMark, nl.Uint32Attr(k.FWMark))
		return a, nil
	}
	p, err := protocolCode(k.Protocol)
	if err != nil {
		return nil, err
	}
	a.AddRtAttr(svcProtocol, nl.Uint16Attr(p))
	a.AddRtAttr(svcAddr, addrBytes(k.VIP))
	a.AddRtAttr(svcPort, nl.BEUint16Attr(k.Port))
	return a, nil
}

// destAttr is a destination with everything that the kernel knows about one,
// the address family and the tunnel included.
func destAttr(d proto.IPVSDestination) (*nl.RtAttr, error) {
	fwd, err := forwardCode(d.Forward)
	if err != nil {
		return nil, err
	}
	tun, err := tunnelCode(d.TunnelType)
	if err != nil {
		return nil, err
	}
	sum, err := checksumCode(d.TunnelChecksum)
	if err != nil {
		return nil, err
	}
	a := nl.NewRtAttr(attrDest|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(dstFamily, nl.Uint16Attr(addrFamily(d.Address)))
	a.AddRtAttr(dstAddr, addrBytes(d.Address))
	a.AddRtAttr(dstPort, nl.BEUint16Attr(d.Port))
	a.AddRtAttr(dstForward, nl.Uint32Attr(fwd))
	a.AddRtAttr(dstWeight, nl.Uint32Attr(uint32(int32(d.Weight))))
	a.AddRtAttr(dstUpper, nl.Uint32Attr(uint32(d.Upper)))
	a.AddRtAttr(dstLower, nl.Uint32Attr(uint32(d.Lower)))
	a.AddRtAttr(dstTunType, []byte{tun})
	a.AddRtAttr(dstTunPort, nl.BEUint16Attr(d.TunnelPort))
	if sum != 0 { // kernels before 5.3 do not know it
		a.AddRtAttr(dstTunFlags, nl.Uint16Attr(sum))
	}
	return a, nil
}

// writeDest adds or changes a destination; cmd is cmdNewDest or cmdSetDest.
func (g *genl) writeDest(cmd uint8, k proto.IPVSKey, d proto.IPVSDestination) error {
	key, err := keyAttr(k)
	if err != nil {
		return err
	}
	dest, err := destAttr(d)
	if err != nil {
		return err
	}
	_, err = g.request(cmd, unix.NLM_F_ACK, key, dest).Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// services returns all services without their destinations, in the order of
// the kernel's hash table.
func (g *genl) services() ([]proto.IPVSService, error) {
	msgs, err := g.ask(g.request(cmdGetService, unix.NLM_F_DUMP))
	if err != nil {
		return nil, fmt.Errorf("dumping services: %w", err)
	}
	var out []proto.IPVSService
	for _, m := range msgs {
		s, err := serviceFrom(m)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func serviceFrom(m attrs) (proto.IPVSService, error) {
	var s proto.IPVSService
	a, err := parseAttrs(m[attrService])
	if err != nil {
		return s, err
	}
	af := a.u16(svcAF)
	if s.FWMark = a.u32(svcFWMark); s.FWMark != 0 {
		s.IPv6 = af == unix.AF_INET6
	} else {
		s.Protocol = protocolName(a.u16(svcProtocol))
		s.Port = a.be16(svcPort)
		if s.VIP, err = addrFrom(a[svcAddr], af); err != nil {
			return s, err
		}
	}
	s.Scheduler = a.text(svcSched)
	s.Persistence = int(a.u32(svcTimeout))
	s.Netmask = netmaskPrefix(af, a.u32(svcNetmask))
	setFlags(&s, a.u32(svcFlags))
	s.Stats, err = a.counters(svcStat64)
	return s, err
}

// destinations returns a service's destinations in the kernel's list order. A
// service that does not exist has none: the kernel answers with an empty dump.
func (g *genl) destinations(k proto.IPVSKey) ([]proto.IPVSDestination, error) {
	key, err := keyAttr(k)
	if err != nil {
		return nil, err
	}
	msgs, err := g.ask(g.request(cmdGetDest, unix.NLM_F_DUMP, key))
	if err != nil {
		return nil, fmt.Errorf("dumping the destinations of %s: %w", Name(k), err)
	}
	var out []proto.IPVSDestination
	for _, m := range msgs {
		d, err := destFrom(m, family(k))
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func destFrom(m attrs, serviceFamily uint16) (proto.IPVSDestination, error) {
	var d proto.IPVSDestination
	a, err := parseAttrs(m[attrDest])
	if err != nil {
		return d, err
	}
	af := a.u16(dstFamily)
	if af == 0 {
		af = serviceFamily
	}
	if d.Address, err = addrFrom(a[dstAddr], af); err != nil {
		return d, err
	}
	d.Port = a.be16(dstPort)
	fwd := a.u32(dstForward) & 7
	var ok bool
	if d.Forward, ok = forwards[fwd]; !ok {
		return d, fmt.Errorf("destination %s: unknown forwarding method %d", destName(d), fwd)
	}
	d.Weight = int(int32(a.u32(dstWeight))) // moby/ipvs reads 16 bits: 70000 → 4464
	d.Upper, d.Lower = int(a.u32(dstUpper)), int(a.u32(dstLower))
	d.Active, d.Inactive = int(a.u32(dstActive)), int(a.u32(dstInactive))
	d.Persistent = int(a.u32(dstPersistent))
	if d.Forward == "tunnel" {
		if d.TunnelType, ok = tunnelTypes[a.u8(dstTunType)]; !ok {
			return d, fmt.Errorf("destination %s: unknown tunnel type %d", destName(d), a.u8(dstTunType))
		}
		d.TunnelPort = a.be16(dstTunPort)
		if d.TunnelChecksum, ok = tunnelChecksums[a.u16(dstTunFlags)]; !ok {
			return d, fmt.Errorf("destination %s: unknown tunnel checksum %d", destName(d), a.u16(dstTunFlags))
		}
	}
	d.Stats, err = a.counters(dstStat64)
	return d, err
}

func (g *genl) timeouts() (proto.IPVSTimeouts, error) {
	msgs, err := g.ask(g.request(cmdGetConfig, 0))
	if err != nil {
		return proto.IPVSTimeouts{}, fmt.Errorf("reading the timeouts: %w", err)
	}
	if len(msgs) != 1 {
		return proto.IPVSTimeouts{}, fmt.Errorf("reading the timeouts: %d answers", len(msgs))
	}
	m := msgs[0]
	return proto.IPVSTimeouts{TCP: int(m.u32(attrTimeoutTCP)), TCPFin: int(m.u32(attrTimeoutTCPFin)), UDP: int(m.u32(attrTimeoutUDP))}, nil
}

// info returns the version (1.2.1) and the number of rows of the connection table.
func (g *genl) info() (version string, tabSize int, err error) {
	msgs, err := g.ask(g.request(cmdGetInfo, 0))
	if err != nil {
		return "", 0, fmt.Errorf("reading the version: %w", err)
	}
	if len(msgs) != 1 {
		return "", 0, fmt.Errorf("reading the version: %d answers", len(msgs))
	}
	v := msgs[0].u32(infoVersion)
	return fmt.Sprintf("%d.%d.%d", v>>16&0xff, v>>8&0xff, v&0xff), int(msgs[0].u32(infoTabSize)), nil
}
