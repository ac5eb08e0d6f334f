package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The ring that the kernel writes packets into (TPACKET_V3,
// Documentation/networking/packet_mmap.rst). It holds some 20,000 DNS packets
// while the reader is not scheduled, and costs one system call for a block of
// them instead of two for each packet.
//
// A block that is not full is handed over after ringRetire milliseconds and is
// then used up until it has been read. So the ring also bounds for how long the
// reader may be starved when few packets come: 32 · 200 ms. (With 8 ms, 0.26 s
// of starvation on a busy host lost packets of a run of 2,000.) A block must
// hold the largest frame that offloads make, 64 KiB.
const (
	ringBlock  = 128 << 10
	ringBlocks = 32
	ringRetire = 200
)

// Layout of struct tpacket_block_desc and struct tpacket3_hdr.
const (
	blockStatus, blockPackets, blockFirst         = 8, 12, 16
	packetNext, packetSec, packetNsec, packetSnap = 0, 4, 8, 12
	packetLen, packetMAC                          = 16, 24
)

// packetRing is a packet socket with its ring.
type packetRing struct {
	fd    int
	index int // of the device
	mem   []byte
	block int // the next one to be filled
}

// openRing starts to receive on a device. The filter is in place before the
// first packet can come.
func openRing(dev string, filter []bpf.RawInstruction) (*packetRing, error) {
	ifi, err := net.InterfaceByName(dev)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: nothing comes yet
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	r := &packetRing{fd: fd, index: ifi.Index}
	if err := r.prepare(filter); err != nil {
		r.close()
		return nil, err
	}
	if err := r.bind(unix.ETH_P_ALL); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *packetRing) prepare(filter []bpf.RawInstruction) error {
	prog := make([]unix.SockFilter, len(filter))
	for i, f := range filter {
		prog[i] = unix.SockFilter{Code: f.Op, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	if err := unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("packet ring: %w", err)
	}
	const frame = 2048 // only its product with the number counts in version 3
	if err := unix.SetsockoptTpacketReq3(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq3{
		Block_size: ringBlock, Block_nr: ringBlocks, Frame_size: frame, Frame_nr: ringBlock / frame * ringBlocks, Retire_blk_tov: ringRetire,
	}); err != nil {
		return fmt.Errorf("packet ring: %w", err)
	}
	var err error
	if r.mem, err = unix.Mmap(r.fd, 0, ringBlock*ringBlocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the packet ring: %w", err)
	}
	return nil
}

// bind attaches the socket to its device for a protocol; 0 stops the reception
// and returns when no packet is on its way into the ring any more.
func (r *packetRing) bind(protocol uint16) error {
	return unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: r.index})
}

func (r *packetRing) close() {
	if r.mem != nil {
		_ = unix.Munmap(r.mem)
	}
	_ = unix.Close(r.fd)
}

// stats returns how many packets passed the filter and how many of them found
// the ring full, both since the last call: the kernel counts anew after each.
func (r *packetRing) stats() (packets, drops uint64, err error) {
	st, err := unix.GetsockoptTpacketStatsV3(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, 0, err
	}
	return uint64(st.Packets), uint64(st.Drops), nil
}

// packet is one captured frame; data is valid until the block is given back.
type packet struct {
	sec, nsec uint32
	length    uint32 // of the whole frame
	data      []byte
}

// wait blocks until a block is ready or the event file descriptor is readable.
func (r *packetRing) wait(event int) error {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(event), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	if fds[0].Revents&unix.POLLERR != 0 { // the device has gone down or away
		_, _ = unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if fds[1].Revents == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// drain hands over the packets of all blocks that are ready. With rest it also
// takes the block that is being filled: allowed once the reception has stopped.
func (r *packetRing) drain(rest bool, f func(packet)) {
	for range ringBlocks {
		b := r.mem[r.block*ringBlock : (r.block+1)*ringBlock]
		status := (*uint32)(unsafe.Pointer(&b[blockStatus]))
		ready := atomic.LoadUint32(status)&unix.TP_STATUS_USER != 0
		n := binary.NativeEndian.Uint32(b[blockPackets:])
		if !ready && (!rest || n == 0) {
			return
		}
		off := binary.NativeEndian.Uint32(b[blockFirst:])
		for range n {
			h := b[off:]
			mac := uint32(binary.NativeEndian.Uint16(h[packetMAC:]))
			f(packet{sec: binary.NativeEndian.Uint32(h[packetSec:]), nsec: binary.NativeEndian.Uint32(h[packetNsec:]),
				length: binary.NativeEndian.Uint32(h[packetLen:]), data: h[mac : mac+binary.NativeEndian.Uint32(h[packetSnap:])]})
			off += binary.NativeEndian.Uint32(h[packetNext:])
		}
		// A block that the kernel has not opened again must look empty.
		binary.NativeEndian.PutUint32(b[blockPackets:], 0)
		atomic.StoreUint32(status, unix.TP_STATUS_KERNEL)
		r.block = (r.block + 1) % ringBlocks
		if !ready {
			return
		}
	}
}
