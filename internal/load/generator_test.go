package load

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var here = netip.MustParseAddr("198.18.0.128")

// The draw of the ports is part of the artifact's contract.
func TestSourcePortsNeverChange(t *testing.T) {
	for _, c := range []struct {
		seed int64
		from string
		want []uint16
	}{
		{2026, "198.18.0.128", []uint16{36610, 43267, 51589, 40926, 39331}},
		{2026, "198.18.0.129", []uint16{49967, 56151, 45119, 36070, 58144}},
		{-1, "198.18.0.128", []uint16{58756, 40950, 39420, 53288, 37029}},
	} {
		got, err := SourcePorts(c.seed, netip.MustParseAddr(c.from), 5)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d, %s: %v %v, want %v", c.seed, c.from, got, err, c.want)
		}
	}
	if _, err := SourcePorts(1, here, PortCount+1); err == nil {
		t.Error("more ports than there are")
	}
}

func TestSourcePortsAreAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, vips := rapid.Int64().Draw(t, "seed"), rapid.IntRange(1, 4).Draw(t, "vips")
		n := rapid.IntRange(1, PortCount/vips).Draw(t, "n")
		seen := map[uint16]bool{}
		all, err := SourcePorts(seed, here, n*vips)
		if err != nil {
			t.Fatal(err)
		}
		for v := range vips {
			mine, err := PortsOf(seed, ShareOf(here, nil), v, vips, n)
			if err != nil || len(mine) != n {
				t.Fatalf("%d ports, want %d, %v", len(mine), n, err)
			}
			for k, p := range mine {
				if seen[p] || p < FirstPort || int(p) >= FirstPort+PortCount || p != all[k*vips+v] {
					t.Fatalf("port %d of VIP %d is %d", k, v, p)
				}
				seen[p] = true
			}
		}
	})
}

func TestGeneratorJobs(t *testing.T) {
	g := Generator{VIPs: []netip.Addr{netip.MustParseAddr("198.18.0.101"), netip.MustParseAddr("198.18.0.102")}, Port: 53, From: []netip.Addr{here},
		Protocol: "udp", Questions: []Question{{"a.", "A"}, {"b.", "A"}, {"c.", "A"}}, Queries: 7, Window: 10, Rate: 100, Timeout: time.Second, Seed: 3, Dir: "/run/x"}
	jobs, err := g.Jobs()
	if err != nil || len(jobs) != 2 || jobs[0].Queries != 4 || jobs[1].Queries != 3 || len(jobs[0].Ports) != 4 || len(jobs[1].Ports) != 3 || jobs[0].Rate != 50 ||
		string(jobs[1].Lines) != "b. A\na. A\nc. A\n" || jobs[1].Path != "/run/x/queries-1" {
		t.Errorf("%v %+v", err, jobs)
	}
	all, _ := SourcePorts(3, here, 8)
	if jobs[0].Ports[1] != all[2] || jobs[1].Ports[1] != all[3] {
		t.Errorf("ports %v and %v of %v", jobs[0].Ports, jobs[1].Ports, all)
	}
	g.Sockets = 2
	if jobs, err = g.Jobs(); err != nil || len(jobs[0].Ports) != 2 {
		t.Errorf("%v %+v", err, jobs)
	}
	for name, change := range map[string]func(*Generator){
		"open without rate": func(g *Generator) { g.Open, g.Rate = true, 0 },
		"window":            func(g *Generator) { g.Window = 0 },
		"too long":          func(g *Generator) { g.Rate, g.Queries = 1, 4000 },
		"too many":          func(g *Generator) { g.Queries = MostAsked + 1 },
		"ports":             func(g *Generator) { g.Sockets, g.Queries, g.Rate = 0, PortCount+5, 0 },
		"waiting":           func(g *Generator) { g.Open, g.Rate, g.Timeout = true, 20000, time.Second },
		"no address":        func(g *Generator) { g.From = nil },
		"no VIP":            func(g *Generator) { g.VIPs = nil },
	} {
		bad := g
		change(&bad)
		if _, err := bad.Jobs(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// began is when the samples begin.
var began = time.Date(2026, 12, 1, 10, 0, 0, 123456789, time.UTC)

// pairs are n queries, seen by both in the same way.
func pairs(n int) (record []Asked, captured []Query) {
	vip := netip.MustParseAddr("198.18.0.101")
	for i := range n {
		due := began.Add(time.Duration(i) * time.Millisecond)
		record = append(record, Asked{N: i + 1, Client: here, Port: uint16(40000 + i), VIP: vip, Protocol: "udp", ID: uint16(i), Name: "a.", Type: "A",
			Scheduled: due, Started: due.Add(100 * time.Microsecond), Sent: due.Add(110 * time.Microsecond), Result: Answered,
			Latency: 500 * time.Microsecond, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"})
		captured = append(captured, Query{N: i + 1, Time: due.Add(120 * time.Microsecond), Client: here, Port: uint16(40000 + i), VIP: vip, Protocol: "udp", ID: uint16(i),
			Name: "a.", Type: "A", Outcome: OK, Latency: 400 * time.Microsecond, Rcode: "NOERROR", Source: vip, Backend: "backend.ns[0]"})
	}
	return record, captured
}

func TestJudgeTiming(t *testing.T) {
	record, captured := pairs(100)
	record[10].Started = record[10].Scheduled.Add(time.Millisecond) // when the next one was due
	record[20].Started = record[20].Scheduled.Add(999 * time.Microsecond)
	record[99].Started = record[99].Scheduled.Add(5 * time.Millisecond)
	record[50].Scheduled = time.Time{}
	o := Judge(record, captured)
	if o.Timing.Paced != 99 || o.Timing.Missed != 2 || *o.Timing.P50 != 100e-6 || *o.Timing.Max != 5e-3 || *o.Timing.P99 != 5e-3 || *o.Lag.P50 != 10e-6 || o.Answered != 100 || o.Started != 100 {
		t.Errorf("%+v %v %v %v", o, *o.Timing.P50, *o.Timing.P99, *o.Timing.Max)
	}
}

func TestJudgeWitness(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r []Asked, q []Query) ([]Asked, []Query)
		count  func(Witness) int
		wrong  bool
	}{
		"lost on the own egress": {func(r []Asked, q []Query) ([]Asked, []Query) { return r, q[1:] }, func(w Witness) int { return w.NotOnWire }, false},
		"not asked":              {func(r []Asked, q []Query) ([]Asked, []Query) { return r[1:], q }, func(w Witness) int { return w.NotAsked }, true},
		"not taken": {func(r []Asked, q []Query) ([]Asked, []Query) { r[1].Result = TimedOut; return r, q },
			func(w Witness) int { return w.NotTaken }, false},
		"taken late": {func(r []Asked, q []Query) ([]Asked, []Query) { r[1].Result = TooLate; return r, q },
			func(w Witness) int { return w.NotTaken }, false},
		"not carried": {func(r []Asked, q []Query) ([]Asked, []Query) { q[1].Outcome = Late; return r, q },
			func(w Witness) int { return w.NotCarried }, true},
		"rcode":     {func(r []Asked, q []Query) ([]Asked, []Query) { r[1].Rcode = "REFUSED"; return r, q }, func(w Witness) int { return w.Content }, true},
		"source":    {func(r []Asked, q []Query) ([]Asked, []Query) { r[1].Source = here; return r, q }, func(w Witness) int { return w.Content }, true},
		"truncated": {func(r []Asked, q []Query) ([]Asked, []Query) { r[1].Truncated = true; return r, q }, func(w Witness) int { return w.Content }, true},
		"backend":   {func(r []Asked, q []Query) ([]Asked, []Query) { r[1].Backend = "backend.ns[1]"; return r, q }, func(w Witness) int { return w.Backend }, true},
	} {
		r, q := c.change(pairs(5))
		w := Judge(r, q).Witness
		if c.count(w) != 1 || w.Contradicts() != c.wrong {
			t.Errorf("%s: %+v", name, w)
		}
	}
	r, q := pairs(5)
	r[2].Backend = ""                                // not seen: nothing to compare
	r[3].Result, q[3].Outcome = TimedOut, Unanswered // agreed
	if w := Judge(r, q).Witness; !w.Agrees() || w.Compared != 5 || w.First != "" {
		t.Errorf("%+v", w)
	}
}

func TestRecordComesBack(t *testing.T) {
	record, _ := pairs(3)
	record[1] = Asked{N: 2, Port: 7, VIP: here, Protocol: "tcp", Name: "b.", Type: "TXT", Result: Unsent}
	record[2].Truncated, record[2].Duplicates = true, 3
	var b bytes.Buffer
	if err := WriteRecord(&b, record); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(&b)
	if d := cmp.Diff(record, got, cmpopts.EquateComparable(netip.Addr{})); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestBadRecords(t *testing.T) {
	var b bytes.Buffer
	record, _ := pairs(1)
	if err := WriteRecord(&b, record); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for _, c := range [][2]string{{"n,client", "client,n"}, {"answered", "guessed"}, {"40000", "70000"}, {"198.18.0.128", "me"}, {"2026-12-01T10", "today"},
		{"0.000500000", "soon"}, {"false", "no"}, {",0\n", ",-1\n"}, {",0\n", "\n"}} {
		bad := strings.Replace(good, c[0], c[1], 1)
		if bad == good {
			t.Fatalf("nothing to change in %q", c)
		}
		if _, err := ReadRecord(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "generator.csv") {
			t.Errorf("%q: %v", c, err)
		}
	}
	if _, err := ReadRecord(strings.NewReader("")); err == nil {
		t.Error("an empty file")
	}
}

// What can be read is written again as it was.
func FuzzReadRecord(f *testing.F) {
	record, _ := pairs(2)
	record[1].Result = Refused
	var b bytes.Buffer
	if err := WriteRecord(&b, record); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(strings.Join(recordColumns, ",") + "\n1,,1,::1,udp,2,x.,A,,,,unsent,,,,,,0\n"))
	f.Add([]byte(fmt.Sprintf("%s\n\"", recordColumns)))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ReadRecord(bytes.NewReader(data))
		if err != nil {
			return
		}
		Judge(list, nil)
		var out bytes.Buffer
		if err := WriteRecord(&out, list); err != nil {
			t.Fatal(err)
		}
		again, err := ReadRecord(&out)
		if d := cmp.Diff(list, again, cmpopts.EquateComparable(netip.Addr{})); err != nil || d != "" {
			t.Fatalf("%v\n%s", err, d)
		}
	})
}

// Clients that NAT makes one take no port twice between them; others keep the ports
// that they have always had.
func TestSharedPorts(t *testing.T) {
	a := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	seen := map[netip.Addr]netip.Addr{}
	for i := range 3 {
		seen[a(fmt.Sprintf("198.18.1.%d", 128+i))] = a("198.18.0.1")
	}
	seen[a("198.18.2.128")] = a("198.18.0.2")
	owner := map[uint16]netip.Addr{}
	for from, as := range seen {
		const n, vips = 500, 2
		alone, _ := SourcePorts(7, from, n*vips)
		for v := range vips {
			mine, err := PortsOf(7, ShareOf(from, seen), v, vips, n)
			if err != nil || len(mine) != n {
				t.Fatal(from, len(mine), err)
			}
			for k, p := range mine {
				if o, taken := owner[p]; taken && as == a("198.18.0.1") {
					t.Fatalf("port %d is %s's and %s's", p, o, from)
				}
				if as == a("198.18.0.1") {
					owner[p] = from
				} else if p != alone[k*vips+v] {
					t.Fatalf("%s is alone behind its router and has other ports than without one", from)
				}
			}
		}
	}
	if len(owner) != 3000 {
		t.Errorf("%d ports", len(owner))
	}
	s := ShareOf(a("198.18.1.129"), seen)
	if _, err := s.Ports(7, s.Most()); err != nil {
		t.Error(err)
	}
	if _, err := s.Ports(7, s.Most()+1); err == nil {
		t.Error("more ports than a share has")
	}
	for part := range 3 { // all together have each port once
		s := PortShare{a("198.18.0.1"), part, 3}
		if list, err := s.Ports(7, s.Most()); err != nil || len(list) != s.Most() {
			t.Error(part, len(list), err)
		}
	}
}
