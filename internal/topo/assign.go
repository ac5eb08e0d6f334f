package topo

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// roleStart is where a role's addresses begin in a /24. VIPs, which the file
// says itself, are usually put at .100 to .127.
var roleStart = map[addr.Kind]uint32{addr.Router: 1, addr.Director: 10, addr.Backend: 30, addr.Client: 128}

// roleOrder is the order in which roles are served; it matters in networks
// smaller than /26, where everything stands in plain order, and in full ones.
var roleOrder = []addr.Kind{addr.Router, addr.Director, addr.Backend, addr.Client}

// Assign gives every NIC its addresses, keyed as [lang.SlotKeys] says.
//
// Addresses that the file says are taken as they are. An address in prior
// wins and never moves, as long as its network still contains it. All others
// follow the role's range, in declared order, the instances of a label one
// after the other; a taken address means the next free one. The diagnostics
// name networks that are full and explicit addresses that an earlier
// assignment holds.
func Assign(sk *lang.Skeleton, prior map[string]netip.Addr) (map[string]netip.Addr, diag.Diagnostics) {
	a := &assigner{sk: sk, out: map[string]netip.Addr{}, taken: map[netip.Addr]string{}, networks: map[addr.Noun]netip.Prefix{}, cursors: map[cursorKey]uint32{}}
	for _, n := range sk.Networks {
		a.networks[n.Noun] = n.CIDR
	}
	for _, v := range sk.VIPs {
		a.taken[v.Address] = v.Service.String()
	}
	a.explicit()
	a.earlier(prior)
	for _, role := range roleOrder {
		a.role(role)
	}
	return a.out, a.problems
}

type cursorKey struct {
	network addr.Noun
	role    addr.Kind // zero in small networks: one order for all roles
}

type assigner struct {
	sk       *lang.Skeleton
	out      map[string]netip.Addr
	taken    map[netip.Addr]string // by which machine or service
	networks map[addr.Noun]netip.Prefix
	cursors  map[cursorKey]uint32 // the offset from which the next free address is sought
	problems diag.Diagnostics
}

// each visits all slots; explicit is true for the one that the file says.
func (a *assigner) each(f func(m lang.SkeletonMachine, nic lang.SkeletonNIC, key string, explicit bool)) {
	for _, m := range a.sk.Machines {
		for i, nic := range m.NICs {
			for j, key := range lang.SlotKeys(m.Noun, i, nic.Count) {
				f(m, nic, key, j == 0 && nic.Address.IsValid())
			}
		}
	}
}

func (a *assigner) explicit() {
	a.each(func(m lang.SkeletonMachine, nic lang.SkeletonNIC, key string, explicit bool) {
		if !explicit {
			return
		}
		if by, dup := a.taken[nic.Address]; dup {
			a.problems = append(a.problems, diag.Errorf("Address used twice", "Give one of them another address.",
				"%s has %s, which is %s's already.", m.Noun, nic.Address, by).At(nic.Range).For(m.Noun.String()))
			return
		}
		a.out[key] = nic.Address
		a.taken[nic.Address] = m.Noun.String()
	})
}

// earlier keeps what state has. What the file now says for somebody else is a
// conflict that only the user can decide.
func (a *assigner) earlier(prior map[string]netip.Addr) {
	kept := map[netip.Addr]bool{}
	a.each(func(m lang.SkeletonMachine, nic lang.SkeletonNIC, key string, explicit bool) {
		ip, had := prior[key]
		if explicit || !had || kept[ip] || !usable(a.networks[nic.Network], ip) {
			return
		}
		if by, now := a.taken[ip]; now {
			a.problems = append(a.problems, diag.Errorf("Address already assigned", fmt.Sprintf("Give %s another address, or destroy the lab first.", by),
				"The file gives %s to %s, but %s has had it since an earlier apply, and assigned addresses do not move.", ip, by, m.Noun).
				At(nic.Range).For(m.Noun.String()))
			return
		}
		a.out[key] = ip
		a.taken[ip] = m.Noun.String()
		kept[ip] = true
	})
}

// usable: inside the network, neither its own address nor the broadcast.
func usable(p netip.Prefix, ip netip.Addr) bool {
	if !p.IsValid() || !ip.IsValid() || !p.Contains(ip) {
		return false
	}
	first, last := lang.Ends(p)
	return ip != first && ip != last
}

func (a *assigner) role(role addr.Kind) {
	full := map[addr.Noun]bool{}
	a.each(func(m lang.SkeletonMachine, nic lang.SkeletonNIC, key string, explicit bool) {
		if _, done := a.out[key]; done || explicit || m.Noun.Kind != role || full[nic.Network] {
			return
		}
		p, ok := a.networks[nic.Network]
		if !ok {
			return
		}
		ip, ok := a.next(nic.Network, p, role)
		if !ok {
			full[nic.Network] = true
			a.problems = append(a.problems, diag.Errorf("Network is full", "Use a larger network: a smaller number after the slash.",
				"%s is %s and has no address left for %s.", nic.Network, p, m.Noun).At(nic.Range).For(m.Noun.String()))
			return
		}
		a.out[key] = ip
		a.taken[ip] = m.Noun.String()
	})
}

// next finds the next free address of a role: from its start to the end of the
// network, then from the network's beginning.
func (a *assigner) next(network addr.Noun, p netip.Prefix, role addr.Kind) (netip.Addr, bool) {
	k, start := cursorKey{network, role}, scaled(roleStart[role], shortBits(p))
	if shortBits(p) > 26 {
		k, start = cursorKey{network: network}, 1
	}
	size := room(p)
	from, seen := a.cursors[k]
	if !seen {
		from = start
	}
	for i := range size {
		off := (from + i) % size
		ip := plus(p.Addr(), off)
		if _, taken := a.taken[ip]; taken || !usable(p, ip) {
			continue
		}
		a.cursors[k] = off + 1
		return ip, true
	}
	return netip.Addr{}, false
}

// scaled moves an offset of a /24 to a network of another size, at least 1.
func scaled(offset uint32, bits int) uint32 {
	if bits <= 24 {
		return offset << (24 - bits)
	}
	return max(offset>>(bits-24), 1)
}

// mostOffsets is how many addresses of an IPv6 network are given out, from its
// beginning: there are more than anybody needs.
const mostOffsets = 1 << 16

// room is how many addresses a network has, as far as they are given out.
func room(p netip.Prefix) uint32 {
	if p.Addr().Is6() {
		return min(mostOffsets, uint32(1)<<min(31, 128-p.Bits()))
	}
	return uint32(1) << (32 - p.Bits()) // Bits is 8 to 30
}

// shortBits is the length of an IPv4 network whose roles begin where the network's
// do: those of IPv6 stand as in a /24, ::1, ::a, ::1e and ::80, unless it is smaller.
func shortBits(p netip.Prefix) int {
	if p.Addr().Is6() {
		return max(24, p.Bits()-96)
	}
	return p.Bits()
}

func plus(base netip.Addr, off uint32) netip.Addr {
	if base.Is6() {
		b := base.As16()
		binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(b[12:])+off)
		return netip.AddrFrom16(b)
	}
	b := base.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += off
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}
