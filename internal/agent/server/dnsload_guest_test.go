package server

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/guesttest"
	"github.com/lvslab/lvslab/internal/ipvs"
	"github.com/lvslab/lvslab/internal/load"
)

// The agent's own generator through real IPVS and IPIP: its record and the capture
// are two witnesses of the same queries, machines included, and the ports are
// those that were asked for.
func TestGuestMeasuresOwnLoad(t *testing.T) {
	guesttest.Inside(t)
	lab := guesttest.NewLab(t, 3)
	nodes := map[string]string{guesttest.MAC(guesttest.Director): "director.lb"}
	for i := range 3 {
		serveZone(t, lab, i)
		nodes[guesttest.MAC(guesttest.Backend(i))] = fmt.Sprintf("backend.ns[%d]", i)
	}
	expected, err := load.ExpectedAnswers(measured)
	if err != nil {
		t.Fatal(err)
	}
	match := load.MatchSpec{Clients: []netip.Addr{guesttest.Client}, VIPs: []netip.Addr{guesttest.VIP}, Port: 53, Expected: expected, Timeout: patience, Nodes: nodes}
	const head = "backend.ns[0]" // the last one added
	for _, c := range []struct {
		name, protocol, scheduler string
		sockets, window           int
		fault                     string // of the backends' egress, for tc
		want                      map[string]int
		lost                      bool
	}{
		{"fresh, rr", "udp", "rr", 0, 100, "", map[string]int{head: 100, "backend.ns[1]": 100, "backend.ns[2]": 100}, false},
		{"20 ports, rr", "udp", "rr", 20, 100, "", map[string]int{head: 105, "backend.ns[1]": 105, "backend.ns[2]": 90}, false},
		{"fresh, sed", "udp", "sed", 0, 100, "", map[string]int{head: 300}, false},
		{"TCP, 30 kept, sed", "tcp", "sed", 30, 100, "", map[string]int{head: 100, "backend.ns[1]": 100, "backend.ns[2]": 100}, false},
		{"TCP, one after the other, sed", "tcp", "sed", 0, 1, "", map[string]int{head: 300}, false},
		{"TCP, the same ports again, nq", "tcp", "nq", 0, 1, "", map[string]int{head: 300}, false},
		{"lost and doubled on the way back", "udp", "rr", 0, 100, "netem loss 20% duplicate 20%", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			within := patience
			if c.lost {
				within = 3 * time.Second
			}
			if c.fault != "" {
				lab.Sh("", "modprobe sch_netem")
				for i := range 3 {
					lab.Sh(fmt.Sprintf("ns%d", i), "tc qdisc add dev lan root %s", c.fault)
					t.Cleanup(func() { lab.Sh(fmt.Sprintf("ns%d", i), "tc qdisc del dev lan root") })
				}
			}
			g := load.Generator{VIPs: []netip.Addr{guesttest.VIP}, Port: 53, From: []netip.Addr{guesttest.Client}, Protocol: c.protocol,
				Questions: load.QueryNames(measured), Queries: 300, Sockets: c.sockets, Window: c.window, Timeout: within, Seed: 5, Dir: FileRoot}
			jobs, err := g.Jobs()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(FileRoot, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(jobs[0].Path, jobs[0].Lines, 0o644); err != nil {
				t.Fatal(err)
			}
			res, pcap := generateOnce(t, lab, c.scheduler, proto.DNSLoadSpec{Server: netip.AddrPortFrom(guesttest.VIP, 53), From: guesttest.Client, Protocol: c.protocol,
				Path: jobs[0].Path, Queries: 300, Ports: jobs[0].Ports, Fresh: c.sockets == 0, Window: c.window, WithinMS: within.Milliseconds(),
				TimeoutMS: 2 * patience.Milliseconds(), Device: "lan"})
			match := match
			match.Timeout = within
			m, err := load.Match(bytes.NewReader(pcap), match)
			if err != nil {
				t.Fatal(err)
			}
			record, err := load.ReadRecord(bytes.NewReader(res.Record))
			if err != nil {
				t.Fatal(err)
			}
			for i := range record {
				record[i].Backend = nodes[record[i].Backend]
			}
			own, sum := load.Judge(record, m.Queries), load.Summarise(m.Queries, within)
			if w := own.Witness; !w.Agrees() || w.Compared != 300 || w.NotOnWire != 0 || res.Strange != 0 || res.Unwatched != 0 || res.Cut != "" {
				t.Errorf("%+v, strange %d, unwatched %d, cut %q", own, res.Strange, res.Unwatched, res.Cut)
			}
			if i := slices.IndexFunc(record, func(a load.Asked) bool { return a.Result == load.Answered && a.Backend == "" }); i >= 0 {
				t.Errorf("query %d was answered by nobody knows whom", i+1)
			}
			if c.want != nil && (sum.AnswersOK != 300 || !sameCounts(sum.Backends, c.want) || sum.Backends[head] != c.want[head]) {
				t.Errorf("%d ok, backends %v, want %v", sum.AnswersOK, sum.Backends, c.want)
			}
			if c.lost && (sum.Unanswered == 0 || own.TimedOut != sum.Unanswered || sum.AnswersDuplicate == 0 || own.Duplicates != sum.AnswersDuplicate) {
				t.Errorf("%d unanswered and %d duplicates in the capture, %d and %d for the generator", sum.Unanswered, sum.AnswersDuplicate, own.TimedOut, own.Duplicates)
			}
			t.Logf("300 queries in %v, lag %.0f µs (p50), %.0f µs (max)", res.Wall.Round(time.Millisecond), *own.Lag.P50*1e6, *own.Lag.Max*1e6)
		})
	}
}

// generateOnce runs a load on a service that was made anew, and captures it.
func generateOnce(t *testing.T, lab *guesttest.Lab, scheduler string, spec proto.DNSLoadSpec) (proto.DNSLoadResult, []byte) {
	t.Helper()
	ctx := context.Background()
	service := proto.IPVSService{IPVSKey: proto.IPVSKey{Protocol: spec.Protocol, VIP: guesttest.VIP, Port: 53}, Scheduler: scheduler}
	for i := range 3 {
		service.Destinations = append(service.Destinations, proto.IPVSDestination{Address: guesttest.Backend(i), Port: 53, Forward: "tunnel", Weight: 1})
	}
	var err error
	lab.In("director", func() {
		_, err = onDirector(&director{}, (*ipvs.Handle).Fresh)(ctx, proto.IPVSFreshSpec{Services: []proto.IPVSService{service}})
	})
	if err != nil {
		t.Fatal(err)
	}
	caps := &captures{life: ctx, running: map[string]*capture{}}
	var res proto.DNSLoadResult
	lab.In("client", func() {
		if _, err = caps.start(ctx, proto.CaptureSpec{ID: "c", Dev: "lan", Port: 53}); err == nil {
			res, err = files{root: FileRoot}.generate(ctx, spec)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	end, err := caps.stop(ctx, proto.CaptureRef{ID: "c", QuietMS: 50})
	if err != nil || end.Dropped != 0 {
		t.Fatalf("%v, %d dropped", err, end.Dropped)
	}
	return res, end.Pcap
}
