package server

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/guesttest"
)

// What passes a machine's card is seen in both directions with what is around it, and
// nothing that has none of the addresses; what is beyond the bound is counted.
func TestGuestMeasuresSightings(t *testing.T) {
	guesttest.Inside(t)
	ctx := context.Background()
	lab := guesttest.NewLab(t, 1)
	other := netip.MustParseAddr("198.18.0.130")
	lab.Sh("client", `ip addr add %s/24 dev lan; ip link add tun type ipip local %s remote %s; ip link set tun up; ip route add 198.18.7.7 dev tun src %s`,
		other, guesttest.Client, guesttest.Backend(0), guesttest.Client)
	client, backend := &sightings{life: ctx, running: map[string]*sightingWatch{}}, &sightings{life: ctx, running: map[string]*sightingWatch{}}
	begin := func(ns string, s *sightings, id string, most int) {
		lab.In(ns, func() {
			if _, err := s.start(ctx, proto.SightingsSpec{ID: id, Addresses: []netip.Addr{guesttest.Client}, Most: most}); err != nil {
				t.Error(err)
			}
		})
	}
	begin("client", client, "all", 100)
	begin("client", client, "few", 1)
	begin("ns0", backend, "all", 1)
	begin("ns0", backend, "all", 100) // in the place of the first
	sendFrom(t, lab, "udp", other, guesttest.Backend(0), 53, 20)
	sendFrom(t, lab, "udp", guesttest.Client, guesttest.Backend(0), 5353, 1) // a second one would meet the ICMP error of the first
	sendFrom(t, lab, "udp", guesttest.Client, netip.MustParseAddr("198.18.7.7"), 53, 3)
	time.Sleep(50 * time.Millisecond) // over the bridge
	end := func(s *sightings, id string) proto.SightingsResult {
		r, err := s.stop(ctx, proto.SightingsRef{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.stop(ctx, proto.SightingsRef{ID: id}); err == nil {
			t.Errorf("%s: a watch can be ended twice", id)
		}
		return r
	}
	for _, c := range []struct {
		name string
		seen proto.SightingsResult
		out  bool
	}{{"client", end(client, "all"), true}, {"ns0", end(backend, "all"), false}} {
		plain, tunnelled := 0, 0
		for _, f := range c.seen.Frames {
			if f.Device != "lan" || f.Length < len(f.Frame) || time.Since(f.Time) > time.Minute || !bytes.Contains(f.Frame, guesttest.Client.AsSlice()) {
				t.Errorf("%s: %+v", c.name, f)
			}
			switch {
			case f.Out != c.out || len(f.Frame) < 34 || f.Frame[12] != 8 || f.Frame[13] != 0:
			case f.Frame[23] == 17:
				plain++
			case f.Frame[23] == 4:
				tunnelled++
			}
		}
		if plain != 1 || tunnelled != 3 || c.seen.Dropped != 0 {
			t.Errorf("%s: %d plain and %d tunnelled packets of 1 and 3, %d dropped", c.name, plain, tunnelled, c.seen.Dropped)
		}
	}
	if few := end(client, "few"); len(few.Frames) != 1 || few.Dropped < 4 {
		t.Errorf("%d frames and %d dropped, want one and the others counted", len(few.Frames), few.Dropped)
	}
}
