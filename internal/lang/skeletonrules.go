package lang

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// unusable are ranges that a kernel does not treat as ordinary addresses.
var unusable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/3"),
	// Unspecified, loopback and IPv4's, link-local and multicast (RFC 4291).
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// private are ranges that nobody else can own: RFC 2544 (benchmarks), 1918,
// 6598, 5737 (documentation), 3927; for IPv6 RFC 4193, 3849 (documentation) and
// 5180 (benchmarks).
var private = []netip.Prefix{
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2001:2::/48"),
}

// Ends returns a network's first and last address, which no machine may have:
// the network address and the broadcast address.
func Ends(p netip.Prefix) (network, broadcast netip.Addr) {
	if p.Addr().Is6() { // the first is the routers' anycast address (RFC 4291, 2.6.1)
		b := p.Masked().Addr().As16()
		for i := p.Bits(); i < 128; i++ {
			b[i/8] |= 0x80 >> (i % 8)
		}
		return p.Masked().Addr(), netip.AddrFrom16(b)
	}
	b := p.Masked().Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v |= ^uint32(0) >> p.Bits()
	if p.Bits() == 0 {
		v = ^uint32(0)
	}
	return p.Masked().Addr(), netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

func (e *evaluator) skeletonRules(sk *Skeleton) {
	e.networkRules(sk)
	e.moveRules(sk)
	e.addressRules(sk)
}

func (e *evaluator) networkRules(sk *Skeleton) {
	for i, n := range sk.Networks {
		for _, u := range unusable {
			if u.Overlaps(n.CIDR) {
				e.problems.add(diag.Errorf("Network in a reserved range", usualRange(n.CIDR),
					"%s is %s; addresses of %s do not work on a network.", n.Noun, n.CIDR, u).At(n.Range))
			}
		}
		if !within(private, n.CIDR) && !within(unusable, n.CIDR) {
			e.problems.add(diag.Warnf("Public addresses", strings.Replace(usualRange(n.CIDR), "Use", "Prefer", 1),
				"%s is %s, which others own. The lab is isolated, but its captures and tables will look like theirs.", n.Noun, n.CIDR).At(n.Range))
		}
		for _, o := range sk.Networks[:i] {
			if o.CIDR.Overlaps(n.CIDR) {
				e.problems.add(diag.Errorf("Networks overlap", "Choose another cidr for one of them.",
					"%s is %s and %s is %s.", n.Noun, n.CIDR, o.Noun, o.CIDR).At(n.Range))
			}
		}
	}
}

// usualRange is where labs of a family are at home.
func usualRange(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "Use a part of fd00::/8, the range for private networks (RFC 4193)."
	}
	return "Use a part of 198.18.0.0/15, the range for benchmarks (RFC 2544)."
}

func within(list []netip.Prefix, p netip.Prefix) bool {
	for _, l := range list {
		if l.Bits() <= p.Bits() && l.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// addressRules looks at the addresses that the file says.
func (e *evaluator) addressRules(sk *Skeleton) {
	cidr := map[addr.Noun]netip.Prefix{}
	for _, n := range sk.Networks {
		cidr[n.Noun] = n.CIDR
	}
	owner := map[netip.Addr]string{}
	for _, m := range sk.Machines {
		on := map[addr.Noun]bool{}
		for i, nic := range m.NICs {
			if on[nic.Network] {
				e.problems.add(diag.Errorf("Two NICs on one network", "Give the client addresses = N, or put the second NIC on another network.",
					"%s has two NICs on %s.", m.Noun, nic.Network).At(nic.Range).For(m.Noun.String()))
			}
			on[nic.Network] = true
			if !nic.Address.IsValid() {
				continue
			}
			place := fmt.Sprintf("%s/nic[%d].address", m.Noun, i)
			at := nic.Range
			if r, ok := e.places[place]; ok {
				at = r
			}
			e.explicitAddress(nic.Address, cidr[nic.Network], nic.Network, m.Noun, place, at)
			if by, taken := owner[nic.Address]; taken {
				e.problems.add(e.valued(diag.Errorf("Address used twice", "Give one of them another address.", "%s has %s, which is %s's already.", m.Noun, nic.Address, by).At(at), place))
				continue
			}
			owner[nic.Address] = m.Noun.String()
		}
	}
	for _, v := range sk.VIPs {
		if by, taken := owner[v.Address]; taken {
			e.problems.add(diag.Errorf("Address used twice", "Give the service an address that no machine has.",
				"%s has the VIP %s, which is %s's address already.", v.Service, v.Address, by).At(v.Range).For(v.Service.String()))
		}
	}
}

func (e *evaluator) explicitAddress(ip netip.Addr, cidr netip.Prefix, network, owner addr.Noun, place string, at diag.Range) {
	if !cidr.IsValid() {
		return // the network was reported
	}
	first, last := Ends(cidr)
	var d diag.Diagnostic
	switch {
	case !cidr.Contains(ip):
		d = diag.Errorf("Address outside its network", fmt.Sprintf("Choose one from %s, or leave it out: then it is assigned.", cidr),
			"%s has %s, but %s is %s.", owner, ip, network, cidr)
	case ip == first:
		d = diag.Errorf("Network address", "Choose another one.", "%s has %s, which is the address of %s itself.", owner, ip, network)
	case ip == last:
		d = diag.Errorf("Broadcast address", "Choose another one.", "%s has %s, which is the broadcast address of %s.", owner, ip, network)
	default:
		return
	}
	e.problems.add(e.valued(d.At(at).For(owner.String()), place))
}

// valued adds the values that were involved at that place.
func (e *evaluator) valued(d diag.Diagnostic, place string) diag.Diagnostic {
	d.Values = e.values[place]
	return d
}
