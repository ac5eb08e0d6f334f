package dnsload

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// watch reads the source MAC addresses of answers, on a packet socket beside the
// sockets that the answers go to: on one network the MAC is the machine that sent
// it, whatever the answer says. The kernel gives a frame to packet sockets before
// it gives it to anybody else (net/core/dev.c, __netif_receive_skb_core), so the
// address of an answer that was read is known.
type watch struct {
	fd    int
	tcp   bool
	from  map[key][6]byte    // UDP: by port and id
	conns map[uint16][6]byte // TCP: by port, of the last segment with data
}

// headerBytes hold an IPv4 header with options, and ports and DNS id behind it.
const headerBytes = 96

func newWatch(spec proto.DNSLoadSpec) (*watch, error) {
	ifi, err := net.InterfaceByName(spec.Device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	w := &watch{fd: fd, tcp: spec.Protocol == "tcp", from: map[key][6]byte{}, conns: map[uint16][6]byte{}}
	filter, err := bpf.Assemble(answersOf(spec))
	if err == nil {
		prog := make([]unix.SockFilter, len(filter))
		for i, f := range filter {
			prog[i] = unix.SockFilter{Code: f.Op, Jt: f.Jt, Jf: f.Jf, K: f.K}
		}
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
	}
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
		protocol := uint16(unix.ETH_P_IP) // in the network's byte order
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: ifi.Index})
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return w, nil
}

// answersOf is a classic BPF program over packets without their link header: it
// keeps the first fragments that the server sent from its port to the load's own
// address. Other addresses of the client have the same ports, for other loads.
func answersOf(spec proto.DNSLoadSpec) []bpf.Instruction {
	protocol := uint32(unix.IPPROTO_UDP)
	if spec.Protocol == "tcp" {
		protocol = unix.IPPROTO_TCP
	}
	tests := []struct {
		load []bpf.Instruction
		cond bpf.JumpTest
		val  uint32
	}{
		{[]bpf.Instruction{bpf.LoadAbsolute{Off: 12, Size: 4}}, bpf.JumpNotEqual, number(spec.Server.Addr())},
		{[]bpf.Instruction{bpf.LoadAbsolute{Off: 16, Size: 4}}, bpf.JumpNotEqual, number(spec.From)},
		{[]bpf.Instruction{bpf.LoadAbsolute{Off: 9, Size: 1}}, bpf.JumpNotEqual, protocol},
		{[]bpf.Instruction{bpf.LoadAbsolute{Off: 6, Size: 2}}, bpf.JumpBitsSet, 0x1fff}, // a later fragment
		{[]bpf.Instruction{bpf.LoadMemShift{Off: 0}, bpf.LoadIndirect{Off: 0, Size: 2}}, bpf.JumpNotEqual, uint32(spec.Server.Port())},
	}
	var out []bpf.Instruction
	for _, t := range tests { // the first that holds drops the packet
		out = append(out, t.load...)
		out = append(out, bpf.JumpIf{Cond: t.cond, Val: t.val, SkipFalse: 1}, bpf.RetConstant{Val: 0})
	}
	return append(out, bpf.RetConstant{Val: headerBytes})
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// drain reads all frames that have come.
func (w *watch) drain() {
	var b [headerBytes]byte
	for {
		n, from, err := unix.Recvfrom(w.fd, b[:], unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype == unix.PACKET_OUTGOING || ll.Halen != 6 {
			continue
		}
		w.note(b[:n], [6]byte(ll.Addr[:6]))
	}
}

// note keeps the sender of a packet.
func (w *watch) note(b []byte, mac [6]byte) {
	if len(b) < 20 {
		return
	}
	body := b[min(len(b), int(b[0]&15)*4):]
	if len(body) < 4 {
		return
	}
	port := binary.BigEndian.Uint16(body[2:])
	if w.tcp {
		// Segments with data only: the last run's connection from the same port may
		// still repeat its FIN.
		if len(body) > 12 && int(binary.BigEndian.Uint16(b[2:])) > len(b)-len(body)+int(body[12]>>4)*4 {
			w.conns[port] = mac
		}
		return
	}
	const header = 8 // UDP's
	if len(body) >= header+2 {
		k := key{port, binary.BigEndian.Uint16(body[header:])}
		if _, first := w.from[k]; !first {
			w.from[k] = mac
		}
	}
}

// sender is the MAC address that an answer came from, "" when it was not seen. It
// is told once: ids come again.
func (w *watch) sender(port, id uint16, tcp bool) string {
	if w == nil {
		return ""
	}
	w.drain()
	mac, ok := w.conns[port]
	if !tcp {
		k := key{port, id}
		mac, ok = w.from[k]
		delete(w.from, k)
	}
	if !ok {
		return ""
	}
	return net.HardwareAddr(mac[:]).String()
}

// lost counts frames that found the socket's buffer full.
func (w *watch) lost() uint64 {
	if w == nil {
		return 0
	}
	st, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return uint64(st.Drops)
}

func (w *watch) close() {
	if w != nil {
		_ = unix.Close(w.fd)
	}
}
