package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/guesttest"
)

// sendFrom sends packets of a source to the VIP: UDP datagrams, or a SYN.
func sendFrom(t *testing.T, lab *guesttest.Lab, protocol string, source, to netip.Addr, port, n int) {
	t.Helper()
	lab.In("client", func() {
		if protocol == "tcp" {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: source.AsSlice()}, Timeout: time.Second}
			if c, err := d.Dial("tcp", netip.AddrPortFrom(to, uint16(port)).String()); err == nil {
				c.Close()
			} // refused: the SYN has arrived all the same
			return
		}
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: source.AsSlice()}, &net.UDPAddr{IP: to.AsSlice(), Port: port})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for range n {
			_, _ = c.Write([]byte("x")) // an ICMP error of the one before is none of this
		}
	})
}

// The first packet of each source is found among those of others, to other ports, of
// the other protocol, and among those that the director sends on itself.
func TestGuestMeasuresArrivals(t *testing.T) {
	guesttest.Inside(t)
	ctx := context.Background()
	lab := guesttest.NewLab(t, 1)
	one, two, other := guesttest.Client, netip.MustParseAddr("198.18.0.129"), netip.MustParseAddr("198.18.0.130")
	six := []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::20")}
	lab.Sh("client", `ip addr add 198.18.0.129/24 dev lan; ip addr add 198.18.0.130/24 dev lan
		ip addr add fd00::1/64 dev lan nodad; ip addr add fd00::2/64 dev lan nodad`)
	lab.Sh("director", `ip addr add fd00::20/64 dev lan nodad; echo 1 >/proc/sys/net/ipv4/ip_forward`)
	const gap = 60 * time.Millisecond
	for name, c := range map[string]struct {
		protocol string
		sources  []netip.Addr
		to       netip.Addr
		between  func()
	}{
		"udp": {"udp", []netip.Addr{two, one}, guesttest.VIP, func() {
			sendFrom(t, lab, "udp", other, guesttest.VIP, 53, 500)
			sendFrom(t, lab, "udp", one, guesttest.VIP, 54, 1)
			sendFrom(t, lab, "tcp", one, guesttest.VIP, 53, 1)
			sendFrom(t, lab, "udp", two, guesttest.VIP, 53, 500)
			lab.Sh("director", `ip addr add %s/32 dev lo; echo x | timeout 1 busybox nc -u -w1 -s %[1]s %s 53 || true; ip addr del %[1]s/32 dev lo`, one, guesttest.Backend(0))
		}},
		"tcp":  {"tcp", []netip.Addr{one, two}, guesttest.VIP, func() { sendFrom(t, lab, "udp", two, guesttest.VIP, 53, 1) }},
		"IPv6": {"udp", six[:2], six[2], func() {}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &arrivals{life: ctx, running: map[string]*arrivalWatch{}}
			spec := proto.ArrivalsSpec{ID: "x", Protocol: c.protocol, Port: 53, Sources: c.sources}
			var err error
			lab.In("director", func() { _, err = a.start(ctx, spec) })
			if err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			sendFrom(t, lab, c.protocol, c.sources[0], c.to, 53, 1)
			c.between()
			time.Sleep(gap)
			last := time.Now()
			sendFrom(t, lab, c.protocol, c.sources[1], c.to, 53, 1)
			got, err := a.stop(ctx, proto.ArrivalsRef{ID: "x"})
			if err != nil || got.Dropped != 0 || len(got.First) != 2 {
				t.Fatalf("%v %+v", err, got)
			}
			for i, f := range got.First {
				if f.Source != c.sources[i] {
					t.Errorf("the %d. is %s, want %s", i+1, f.Source, c.sources[i])
				}
			}
			if f := got.First; f[0].Time.Before(before) || f[0].Time.After(last.Add(-gap)) || f[1].Time.Before(last) || f[1].Time.After(time.Now()) {
				t.Errorf("sent after %v and after %v, seen at %v and %v", before, last, f[0].Time, f[1].Time)
			}
		})
	}
	edges(t, lab)
}

// edges are a source that never comes, and names.
func edges(t *testing.T, lab *guesttest.Lab) {
	ctx := context.Background()
	life, end := context.WithCancel(ctx)
	a := &arrivals{life: life, running: map[string]*arrivalWatch{}}
	spec := proto.ArrivalsSpec{ID: "x", Protocol: "udp", Port: 53, Sources: []netip.Addr{guesttest.Client, guesttest.Backend(9)}}
	var first, twice, bad error
	lab.In("director", func() {
		_, first = a.start(ctx, spec)
		_, twice = a.start(ctx, spec)
		_, bad = a.start(ctx, proto.ArrivalsSpec{ID: "y", Protocol: "icmp"})
	})
	var e *proto.Error
	if first != nil || !errors.As(twice, &e) || e.Code != proto.CodeInvalid || !errors.As(bad, &e) || e.Code != proto.CodeInvalid {
		t.Errorf("%v, twice %v, of another protocol %v", first, twice, bad)
	}
	sendFrom(t, lab, "udp", guesttest.Client, guesttest.VIP, 53, 3)
	if got, err := a.stop(ctx, proto.ArrivalsRef{ID: "x"}); err != nil || len(got.First) != 1 {
		t.Errorf("one never came: %v %+v", err, got)
	}
	if _, err := a.stop(ctx, proto.ArrivalsRef{ID: "x"}); !errors.As(err, &e) || e.Code != proto.CodeNotFound {
		t.Errorf("stopped twice: %v", err)
	}
	lab.In("director", func() { _, first = a.start(ctx, spec) })
	end() // the agent ends: nothing hangs
	if _, err := a.stop(ctx, proto.ArrivalsRef{ID: "x"}); first != nil || err != nil {
		t.Errorf("%v, after the agent's end %v", first, err)
	}
}
