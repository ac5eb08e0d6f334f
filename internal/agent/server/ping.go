package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerPing(s *Server) {
	Handle(s, proto.Ping, ping)
}

// Types of RFC 792 and RFC 4443.
const (
	echoReply4   = 0
	echoRequest4 = 8
	echoRequest6 = 128
	echoReply6   = 129
)

// pingEvery is the pause between echoes: the first one is lost often, since the
// other side's address is not resolved yet.
const pingEvery = 100 * time.Millisecond

const defaultPingWithin = 5 * time.Second

func ping(ctx context.Context, spec proto.PingSpec) (proto.PingResult, error) {
	within := time.Duration(spec.TimeoutMS) * time.Millisecond
	if within <= 0 {
		within = defaultPingWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := listenICMP(spec)
	if err != nil {
		return proto.PingResult{}, fail(proto.CodeFailed, spec.Address.String(), "open an ICMP socket: %v", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	id := uint16(os.Getpid()) ^ uint16(time.Now().UnixNano())
	if spec.Count > 0 {
		return series(ctx, conn, spec, id)
	}
	var result proto.PingResult
	var began []time.Time
	for seq := uint16(1); ctx.Err() == nil; seq++ {
		sent := time.Now()
		began = append(began, sent)
		result.Sent++
		answered := uint16(0)
		// No route or no neighbour shows as an error; both may come right in time.
		if _, err = conn.WriteTo(echo(spec.Address, id, seq), &net.IPAddr{IP: spec.Address.AsSlice()}); err == nil {
			answered, err = awaitEcho(conn, spec.Address, id, sent.Add(pingEvery))
		}
		if err == nil && answered > 0 && int(answered) <= len(began) {
			// A slow link answers an echo when the next ones have been sent.
			result.RTTUS = time.Since(began[answered-1]).Microseconds()
			return result, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(sent.Add(pingEvery))):
		}
	}
	reason := "no answer"
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		reason = err.Error()
	}
	return result, fail(proto.CodeTimeout, spec.Address.String(), "%d echoes in %s: %s", result.Sent, within, reason)
}

func listenICMP(spec proto.PingSpec) (*net.IPConn, error) {
	network := "ip4:icmp"
	if spec.Address.Is6() {
		network = "ip6:ipv6-icmp"
	}
	var local *net.IPAddr
	if spec.From.IsValid() {
		local = &net.IPAddr{IP: spec.From.AsSlice()}
	}
	return net.ListenIP(network, local)
}

func echo(to netip.Addr, id, seq uint16) []byte {
	b := make([]byte, 16)
	b[0] = echoRequest4
	if to.Is6() {
		b[0] = echoRequest6 // its checksum is the kernel's, which knows the addresses
	}
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], seq)
	copy(b[8:], "lvslab")
	if to.Is4() {
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return b
}

// checksum is the Internet's of RFC 1071, for an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// awaitEcho returns the number of the echo that was answered.
func awaitEcho(conn *net.IPConn, from netip.Addr, id uint16, until time.Time) (uint16, error) {
	if err := conn.SetReadDeadline(until); err != nil {
		return 0, err
	}
	buf := make([]byte, 1500)
	for {
		n, addr, err := conn.ReadFromIP(buf)
		if err != nil {
			return 0, err
		}
		if addrOf(addr.IP) == from && n >= 8 && (buf[0] == echoReply4 || buf[0] == echoReply6) && binary.BigEndian.Uint16(buf[4:]) == id {
			return binary.BigEndian.Uint16(buf[6:]), nil
		}
	}
}

const (
	// seriesEvery is the pause between the echoes of a series, which do not wait for
	// each other: on a slow link they would take minutes.
	seriesEvery = time.Millisecond
	// mostEchoes is how many numbers an echo can have.
	mostEchoes = 60_000
	// quiet is how long after the last echo, or the last answer, no more are waited for.
	quiet = 2 * time.Second
)

// series sends echoes without waiting for answers, and counts those that come.
func series(ctx context.Context, conn *net.IPConn, spec proto.PingSpec, id uint16) (proto.PingResult, error) {
	result := proto.PingResult{Sent: min(spec.Count, mostEchoes)}
	var mu sync.Mutex
	began := make([]time.Time, result.Sent)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range began {
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			began[i] = time.Now()
			mu.Unlock()
			_, _ = conn.WriteTo(echo(spec.Address, id, uint16(i+1)), &net.IPAddr{IP: spec.Address.AsSlice()}) // one that cannot leave is lost
			time.Sleep(seriesEvery)
		}
	})
	defer sending.Wait()
	shortest := time.Duration(0)
	until := time.Now().Add(time.Duration(result.Sent)*seriesEvery + quiet)
	for result.Received < result.Sent {
		seq, err := awaitEcho(conn, spec.Address, id, until)
		if err != nil {
			break // no more come
		}
		mu.Lock()
		if seq > 0 && int(seq) <= len(began) && !began[seq-1].IsZero() {
			if rtt := time.Since(began[seq-1]); shortest == 0 || rtt < shortest {
				shortest = rtt
			}
			result.Received++
			began[seq-1] = time.Time{} // a duplicate does not count
		}
		mu.Unlock()
		if at := time.Now().Add(quiet); at.After(until) {
			until = at
		}
	}
	if result.RTTUS = shortest.Microseconds(); result.Received == 0 {
		return result, fail(proto.CodeTimeout, spec.Address.String(), "none of %d echoes was answered", result.Sent)
	}
	return result, nil
}
