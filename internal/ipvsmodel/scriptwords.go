package ipvsmodel

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

func protocol(word string) (Protocol, error) {
	switch word {
	case "udp":
		return UDP, nil
	case "tcp":
		return TCP, nil
	}
	return 0, fmt.Errorf("protocol %q %w", word, ErrUnknown)
}

// key reads the service of a line: udp or tcp and its address, or mark and its
// number.
func key(s Step) (Key, error) {
	if s.Args[0] == "mark" {
		n, err := strconv.ParseUint(s.Args[1], 10, 32)
		return Key{Mark: uint32(n)}, err
	}
	p, err := protocol(s.Args[0])
	if err != nil {
		return Key{}, err
	}
	vip, err := netip.ParseAddrPort(s.Args[1])
	return Key{Protocol: p, VIP: vip}, err
}

func serviceOf(s Step) (Service, error) {
	out := Service{Scheduler: s.Args[2]}
	var err error
	for k, v := range s.Options {
		switch k {
		case "ops":
			out.OnePacket = v == "true"
		case "persist":
			out.Persistence, err = time.ParseDuration(v)
		case "netmask":
			out.Netmask, err = netip.ParseAddr(v)
		case "flags":
			for f := range strings.SplitSeq(v, ",") {
				if !out.Flag(f) {
					return out, s.errorf("flag %q", f)
				}
			}
		default:
			return out, s.errorf("option %q", k)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// Flag sets one of the schedulers' flags by its name, sh-port for example; false
// when there is no such flag.
func (s *Service) Flag(name string) bool {
	switch name {
	case "sh-port":
		s.SHPort = true
	case "sh-fallback":
		s.SHFallback = true
	case "mh-port":
		s.MHPort = true
	case "mh-fallback":
		s.MHFallback = true
	default:
		return false
	}
	return true
}

func destinationOf(s Step, at netip.AddrPort) (Destination, error) {
	d := Destination{Address: at, Weight: 1}
	var err error
	for k, v := range s.Options {
		switch k {
		case "weight":
			d.Weight, err = strconv.Atoi(v)
		case "upper":
			d.Upper, err = strconv.Atoi(v)
		case "lower":
			d.Lower, err = strconv.Atoi(v)
		case "forward":
			switch v {
			case "tunnel":
			case "direct":
				d.Forward = Direct
			case "masquerade":
				d.Forward = Masquerade
			default:
				return d, s.errorf("forward %q", v)
			}
		default:
			return d, s.errorf("option %q", k)
		}
		if err != nil {
			return d, err
		}
	}
	return d, nil
}

func (r *runner) timeouts(s Step) error {
	var t Timeouts
	for k, v := range s.Options {
		d, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		switch k {
		case "tcp":
			t.TCP = d
		case "fin":
			t.TCPFin = d
		case "udp":
			t.UDP = d
		default:
			return s.errorf("timeout %q", k)
		}
	}
	r.model.SetTimeouts(t)
	return nil
}

func flagsOf(list string) (out Flags, err error) {
	if list == "" {
		return ACK, nil
	}
	if list == "none" {
		return 0, nil
	}
	for f := range strings.SplitSeq(list, ",") {
		switch f {
		case "syn":
			out |= SYN
		case "fin":
			out |= FIN
		case "rst":
			out |= RST
		case "ack":
			out |= ACK
		default:
			return 0, fmt.Errorf("TCP flag %q %w", f, ErrUnknown)
		}
	}
	return out, nil
}

// clientsOf reads 10.0.0.1:20000, or 10.0.0.1:20000-20002 for three ports, or
// 10.0.0.1-24:20000 for 24 addresses.
func clientsOf(word string) ([]netip.AddrPort, error) {
	bad := fmt.Errorf("client %q is no address and port", word)
	hosts, ports, ok := strings.Cut(word, ":")
	if !ok {
		return nil, bad
	}
	first, last, _ := strings.Cut(hosts, "-")
	addr, err := netip.ParseAddr(first)
	if err != nil || !addr.Is4() {
		return nil, bad
	}
	b := addr.As4()
	fromHost, toHost, err := span(strconv.Itoa(int(b[3])), last, 255)
	if err != nil {
		return nil, bad
	}
	first, last, _ = strings.Cut(ports, "-")
	fromPort, toPort, err := span(first, last, 65535)
	if err != nil {
		return nil, bad
	}
	var out []netip.AddrPort
	for h := fromHost; h <= toHost; h++ {
		b[3] = byte(h)
		for p := fromPort; p <= toPort; p++ {
			out = append(out, netip.AddrPortFrom(netip.AddrFrom4(b), uint16(p)))
		}
	}
	return out, nil
}

func span(first, last string, most int) (from, to int, err error) {
	if last == "" {
		last = first
	}
	if from, err = strconv.Atoi(first); err != nil {
		return 0, 0, err
	}
	if to, err = strconv.Atoi(last); err != nil {
		return 0, 0, err
	}
	if from < 0 || to < from || to > most {
		return 0, 0, ErrRange
	}
	return from, to, nil
}
