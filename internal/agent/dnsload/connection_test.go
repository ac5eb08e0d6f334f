package dnsload

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/load"
)

// A connection that has ended is not made again: its queries fail.
func TestKeptConnectionIsNotMadeAgain(t *testing.T) {
	s := startTCP(t, func(n int, q *dns.Msg) []reply {
		if n == 2 {
			return []reply{{hang: true}}
		}
		return []reply{{msg: right(q)}}
	})
	spec := s.spec("tcp", 8, 2)
	spec.Window = 1
	_, record := run(t, spec)
	var got []load.Result
	for _, a := range record {
		got = append(got, a.Result)
	}
	want := []load.Result{load.Answered, load.Answered, load.Closed, load.Answered, load.Failed, load.Answered, load.Failed, load.Answered}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	l.Close()
	for _, fresh := range []bool{true, false} {
		spec := s.spec("tcp", 3, 3)
		spec.Fresh = fresh
		_, record := run(t, spec)
		if own := load.Judge(record, nil); own.Refused != 3 || own.Started != 3 || !record[0].Sent.IsZero() {
			t.Errorf("fresh %v: %+v", fresh, own)
		}
	}
}

// A connection has the whole time to be made, and its query has it again: the
// listen queue is full at first, so the kernel repeats the SYN after a second.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*unix.SockaddrInet4).Port)), script: func(_ int, q *dns.Msg) []reply {
		return []reply{{after: 900 * time.Millisecond, msg: right(q)}}
	}}
	file := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	defer l.Close()
	filler, err := net.Dial("tcp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	time.AfterFunc(400*time.Millisecond, func() {
		for i := 1; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c, i)
		}
	})
	spec := s.spec("tcp", 1, 1)
	spec.Fresh, spec.WithinMS, spec.Ports = true, 1500, []uint16{firstTestPort + 900}
	_, record := run(t, spec)
	a := record[0]
	if a.Result != load.Answered || a.Sent.Sub(a.Started) < 700*time.Millisecond || a.Sent.Add(a.Latency).Sub(a.Started) < 1500*time.Millisecond {
		t.Errorf("%s, connected after %v, answered %v later", a.Result, a.Sent.Sub(a.Started), a.Latency)
	}
}
