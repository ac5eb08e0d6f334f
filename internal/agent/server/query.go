package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerQuery(s *Server) {
	Handle(s, proto.Query, query)
}

const (
	dnsPort            = 53
	defaultQueryWithin = 5 * time.Second
	nsidOption         = 3 // RFC 5001
	ednsSize           = 1232
	maxUDPAnswer       = 65535
)

func query(ctx context.Context, spec proto.QuerySpec) (proto.QueryAnswer, error) {
	within := time.Duration(spec.TimeoutMS) * time.Millisecond
	if within <= 0 {
		within = defaultQueryWithin
	}
	if spec.Port == 0 {
		spec.Port = dnsPort
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	id := uint16(time.Now().UnixNano() >> 7)
	packet, err := buildQuery(spec, id)
	if err != nil {
		return proto.QueryAnswer{}, err
	}
	ask := askUDP
	if spec.TCP {
		ask = askTCP
	}
	answer, err := ask(ctx, spec, packet, id)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		answer.Refused = true
		return answer, nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return answer, fail(proto.CodeTimeout, spec.Server.String(), "no answer to %s %s within %s", spec.Name, spec.Type, within)
	}
	return answer, err
}

func buildQuery(spec proto.QuerySpec, id uint16) ([]byte, error) {
	name, err := dnsmessage.NewName(strings.TrimSuffix(spec.Name, ".") + ".")
	if err != nil {
		return nil, fail(proto.CodeInvalid, spec.Name, "not a domain name: %v", err)
	}
	typ, err := parseType(spec.Type)
	if err != nil {
		return nil, err
	}
	class := dnsmessage.ClassINET
	switch strings.ToUpper(spec.Class) {
	case "", "IN":
	case "CH":
		class = dnsmessage.ClassCHAOS
	default:
		return nil, fail(proto.CodeInvalid, spec.Name, "unknown class %q", spec.Class)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id},
		Questions: []dnsmessage.Question{{Name: name, Type: typ, Class: class}},
	}
	if spec.NSID {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(ednsSize, dnsmessage.RCodeSuccess, false); err != nil {
			return nil, err
		}
		body := &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: nsidOption}}}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: body}}
	}
	return m.Pack()
}

// typeNames are the record types with a name here; others are written TYPE257.
var typeNames = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "NS": dnsmessage.TypeNS, "CNAME": dnsmessage.TypeCNAME, "SOA": dnsmessage.TypeSOA,
	"PTR": dnsmessage.TypePTR, "MX": dnsmessage.TypeMX, "TXT": dnsmessage.TypeTXT, "AAAA": dnsmessage.TypeAAAA,
	"SRV": dnsmessage.TypeSRV, "ANY": dnsmessage.TypeALL, "DS": 43, "DNSKEY": 48, "TLSA": 52, "SVCB": 64, "HTTPS": 65, "CAA": 257,
}

func parseType(s string) (dnsmessage.Type, error) {
	s = strings.ToUpper(s)
	if t, ok := typeNames[s]; ok {
		return t, nil
	}
	if digits, ok := strings.CutPrefix(s, "TYPE"); ok {
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
			return dnsmessage.Type(n), nil
		}
	}
	return 0, fail(proto.CodeInvalid, s, "unknown record type")
}

// askUDP uses a socket that is not connected, so that an answer from a wrong
// address is seen. IP_RECVERR makes the kernel report ICMP errors on it all the
// same (ip(7)).
func askUDP(ctx context.Context, spec proto.QuerySpec, packet []byte, id uint16) (proto.QueryAnswer, error) {
	var local *net.UDPAddr
	if spec.From.IsValid() {
		local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(spec.From, 0))
	}
	network := "udp4"
	if spec.Server.Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, local)
	if err != nil {
		return proto.QueryAnswer{}, err
	}
	defer conn.Close()
	if err := reportErrors(conn, spec.Server.Is6()); err != nil {
		return proto.QueryAnswer{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer := proto.QueryAnswer{LocalPort: conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()}
	sent := time.Now()
	if _, err := conn.WriteToUDPAddrPort(packet, netip.AddrPortFrom(spec.Server, spec.Port)); err != nil {
		return answer, err
	}
	buf := make([]byte, maxUDPAnswer)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return answer, err
		}
		if err := parseAnswer(buf[:n], id, &answer); err != nil {
			continue // not the answer to this question
		}
		answer.Source, answer.RTTUS = from.Addr().Unmap(), time.Since(sent).Microseconds()
		return answer, nil
	}
}

func reportErrors(conn *net.UDPConn, six bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, 1) }); err != nil {
		return err
	}
	return set
}

func askTCP(ctx context.Context, spec proto.QuerySpec, packet []byte, id uint16) (proto.QueryAnswer, error) {
	var d net.Dialer
	if spec.From.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(spec.From, 0))
	}
	answer := proto.QueryAnswer{Source: spec.Server}
	sent := time.Now()
	conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(spec.Server, spec.Port).String())
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer.LocalPort = conn.LocalAddr().(*net.TCPAddr).AddrPort().Port()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)); err != nil {
		return answer, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return answer, err
	}
	body := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return answer, err
	}
	answer.RTTUS = time.Since(sent).Microseconds()
	return answer, parseAnswer(body, id, &answer)
}

var errOtherMessage = errors.New("not the answer to this question")

func parseAnswer(packet []byte, id uint16, into *proto.QueryAnswer) error {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		return fmt.Errorf("unreadable answer: %w", err)
	}
	if m.ID != id || !m.Response {
		return errOtherMessage
	}
	into.Rcode = rcodeName(m.RCode)
	into.Answers = []string{}
	for _, r := range m.Answers {
		into.Answers = append(into.Answers, rdata(r.Body))
	}
	for _, r := range m.Additionals {
		if opt, ok := r.Body.(*dnsmessage.OPTResource); ok {
			for _, o := range opt.Options {
				if o.Code == nsidOption {
					into.NSID = string(o.Data)
				}
			}
		}
	}
	return nil
}

var rcodeNames = []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED",
	"YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"}

func rcodeName(r dnsmessage.RCode) string {
	if int(r) < len(rcodeNames) {
		return rcodeNames[r]
	}
	return "RCODE" + strconv.Itoa(int(r))
}

// rdata is a record's data in presentation form.
func rdata(b dnsmessage.ResourceBody) string {
	switch r := b.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(r.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(r.AAAA).String()
	case *dnsmessage.NSResource:
		return r.NS.String()
	case *dnsmessage.CNAMEResource:
		return r.CNAME.String()
	case *dnsmessage.PTRResource:
		return r.PTR.String()
	case *dnsmessage.MXResource:
		return fmt.Sprintf("%d %s", r.Pref, r.MX)
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", r.Priority, r.Weight, r.Port, r.Target)
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", r.NS, r.MBox, r.Serial, r.Refresh, r.Retry, r.Expire, r.MinTTL)
	case *dnsmessage.TXTResource:
		quoted := make([]string, len(r.TXT))
		for i, s := range r.TXT {
			quoted[i] = quoteText(s)
		}
		return strings.Join(quoted, " ")
	case *dnsmessage.UnknownResource:
		return fmt.Sprintf(`\# %d %x`, len(r.Data), r.Data) // RFC 3597
	}
	return ""
}

// quoteText is a character string of RFC 1035, section 5.1.
func quoteText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03d`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
