package dnsload

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// packet is an IPv4 packet with the header of a UDP or TCP answer.
func packet(protocol byte, from, to netip.Addr, sport, dport, id uint16, options int) []byte {
	b := make([]byte, 20+options, 64)
	b[0], b[9] = byte(0x40|(20+options)/4), protocol
	f, t := from.As4(), to.As4()
	copy(b[12:], f[:])
	copy(b[16:], t[:])
	b = binary.BigEndian.AppendUint16(b, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = append(b, 0, 0, 0, 0)
	b = append(binary.BigEndian.AppendUint16(b, id), make([]byte, 16)...)
	b[20+options+12] = 5 << 4 // TCP's header without options
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	return b
}

func TestWatchFilter(t *testing.T) {
	vip, me, other := netip.MustParseAddr("198.18.0.101"), netip.MustParseAddr("198.18.0.128"), netip.MustParseAddr("198.18.0.129")
	for _, protocol := range []string{"udp", "tcp"} {
		mine, not := byte(17), byte(6)
		if protocol == "tcp" {
			mine, not = not, mine
		}
		vm, err := bpf.NewVM(answersOf(proto.DNSLoadSpec{Server: netip.AddrPortFrom(vip, 53), From: me, Protocol: protocol}))
		if err != nil {
			t.Fatal(err)
		}
		fragment := packet(mine, vip, me, 53, 40000, 7, 0)
		fragment[7] = 3
		for name, c := range map[string]struct {
			p    []byte
			keep bool
		}{
			"an answer":             {packet(mine, vip, me, 53, 40000, 7, 0), true},
			"one with options":      {packet(mine, vip, me, 53, 40000, 7, 12), true},
			"from elsewhere":        {packet(mine, other, me, 53, 40000, 7, 0), false},
			"to another address":    {packet(mine, vip, other, 53, 40000, 7, 0), false},
			"from another port":     {packet(mine, vip, me, 54, 40000, 7, 0), false},
			"of the other protocol": {packet(not, vip, me, 53, 40000, 7, 0), false},
			"a later fragment":      {fragment, false},
		} {
			if n, err := vm.Run(c.p); err != nil || n > 0 != c.keep {
				t.Errorf("%s, %s: %d bytes, %v", protocol, name, n, err)
			}
		}
	}
}

func TestWatchNotes(t *testing.T) {
	vip, me := netip.MustParseAddr("198.18.0.101"), netip.MustParseAddr("198.18.0.128")
	w := &watch{fd: -1, from: map[key][6]byte{}, conns: map[uint16][6]byte{}}
	w.note(packet(17, vip, me, 53, 40000, 7, 8), [6]byte{2, 0, 0, 0, 0, 1})
	w.note(packet(17, vip, me, 53, 40000, 7, 0), [6]byte{2, 0, 0, 0, 0, 2}) // a duplicate from elsewhere
	w.note(packet(17, vip, me, 53, 40000, 8, 0), [6]byte{2, 0, 0, 0, 0, 3})
	w.note([]byte{0x4f, 0}, [6]byte{})
	w.note(append([]byte{0x4f}, make([]byte, 30)...), [6]byte{})
	for _, c := range []struct {
		id   uint16
		want string
	}{{7, "02:00:00:00:00:01"}, {8, "02:00:00:00:00:03"}, {9, ""}, {7, ""}} {
		if got := w.sender(40000, c.id, false); got != c.want {
			t.Errorf("id %d: %q, want %q", c.id, got, c.want)
		}
	}
	w.tcp = true
	w.note(packet(6, vip, me, 53, 40000, 0, 0), [6]byte{2, 0, 0, 0, 0, 4})
	bare := packet(6, vip, me, 53, 40000, 0, 0)
	binary.BigEndian.PutUint16(bare[2:], 40)
	w.note(bare, [6]byte{2, 0, 0, 0, 0, 5}) // a FIN repeated from elsewhere
	if got := w.sender(40000, 1, true); got != "02:00:00:00:00:04" {
		t.Errorf("over TCP: %q", got)
	}
}
