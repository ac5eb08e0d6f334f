package dnsload

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// peer is who asked the n-th question, from 0, and how.
type peer struct {
	n    int
	port uint16
	conn int // the number of the TCP connection, from 1
	id   uint16
	at   time.Time
}

// server answers on loopback as its script says.
type server struct {
	addr netip.AddrPort
	// script returns the messages to answer the n-th query with and how long each
	// takes; nil: one right answer at once.
	script func(n int, q *dns.Msg) []reply

	mu    sync.Mutex
	peers []peer
	live  int // TCP connections that are open
	most  int // at a time
}

type reply struct {
	after time.Duration
	msg   *dns.Msg
	raw   []byte // instead of msg
	stray bool   // from another port
	hang  bool   // TCP: close the connection instead
}

func (s *server) ask(q *dns.Msg, port uint16, conn int) []reply {
	s.mu.Lock()
	n := len(s.peers)
	s.peers = append(s.peers, peer{n, port, conn, q.Id, time.Now()})
	s.mu.Unlock()
	if s.script == nil {
		return []reply{{msg: right(q)}}
	}
	return s.script(n, q)
}

func right(q *dns.Msg) *dns.Msg {
	a := new(dns.Msg)
	a.SetReply(q)
	return a
}

func startUDP(t *testing.T, script func(int, *dns.Msg) []reply) *server {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); other.Close() })
	s := &server{addr: c.LocalAddr().(*net.UDPAddr).AddrPort(), script: script}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			for _, r := range s.ask(q, from.Port(), 0) {
				by := c
				if r.stray {
					by = other
				}
				time.AfterFunc(r.after, func() { by.WriteToUDPAddrPort(r.bytes(), from) })
			}
		}
	}()
	return s
}

func (r reply) bytes() []byte {
	if r.raw != nil {
		return r.raw
	}
	b, _ := r.msg.Pack()
	return b
}

func startTCP(t *testing.T, script func(int, *dns.Msg) []reply) *server {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &server{addr: l.Addr().(*net.TCPAddr).AddrPort(), script: script}
	go func() {
		for i := 1; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c, i)
		}
	}()
	return s
}

func (s *server) serve(c net.Conn, number int) {
	s.mu.Lock()
	s.live++
	s.most = max(s.most, s.live)
	s.mu.Unlock()
	defer func() {
		c.Close()
		s.mu.Lock()
		s.live--
		s.mu.Unlock()
	}()
	var writing sync.Mutex
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		q := new(dns.Msg)
		if q.Unpack(b) != nil {
			return
		}
		for _, r := range s.ask(q, c.RemoteAddr().(*net.TCPAddr).AddrPort().Port(), number) {
			if r.hang {
				return
			}
			body := r.bytes()
			out := append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
			send := func() { // in two pieces: a stream has no borders
				writing.Lock()
				defer writing.Unlock()
				c.Write(out[:5])
				c.Write(out[5:])
			}
			if r.after == 0 {
				send()
			} else {
				time.AfterFunc(r.after, send)
			}
		}
	}
}
