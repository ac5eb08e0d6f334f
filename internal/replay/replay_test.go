package replay

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

var start = time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC)

// world plays the kernel: a model of its own, whose counters and table become
// the raw data of a run.
type world struct {
	in    Input
	model *ipvsmodel.Model
	at    time.Duration
}

func service(scheduler, protocol string, weights ...int) proto.IPVSService {
	s := proto.IPVSService{IPVSKey: proto.IPVSKey{Protocol: protocol, VIP: netip.MustParseAddr("198.18.0.101"), Port: 53},
		Scheduler: scheduler, Timeouts: proto.IPVSTimeouts{TCP: 900, TCPFin: 120, UDP: 300}}
	for i, w := range weights {
		s.Destinations = append(s.Destinations, proto.IPVSDestination{Address: netip.AddrFrom4([4]byte{198, 18, 0, byte(30 + i)}), Port: 53, Forward: "tunnel", Weight: w})
	}
	return s
}

func newWorld(t *testing.T, s proto.IPVSService) *world {
	t.Helper()
	w := &world{in: Input{Kernel: "6.1.0-57", Before: []proto.IPVSService{s}, Sysctl: map[string]string{"net.ipv4.vs.conn_reuse_mode": "1"},
		Clients: 1, Names: map[netip.Addr]string{}}}
	for i, d := range s.Destinations {
		w.in.Names[d.Address] = fmt.Sprintf("backend.ns[%d]", i)
	}
	var err error
	if w.model, err = Model(w.in.Before, w.in.Sysctl, ipvsmodel.Kernel{}, 7); err != nil {
		t.Fatal(err)
	}
	return w
}

// send lets one packet come, a millisecond after the last.
func (w *world) send(client string, flags ipvsmodel.Flags) {
	w.at += time.Millisecond
	s := w.in.Before[0]
	p := Packet{N: len(w.in.Packets) + 1, Time: start.Add(w.at), Client: netip.MustParseAddrPort(client), VIP: netip.AddrPortFrom(s.VIP, s.Port), Protocol: s.Protocol, Flags: flags}
	if s.FWMark != 0 { // its addresses are many
		p.VIP, p.Protocol = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(100 + p.N%6)}), 53), "udp"
	}
	d := w.model.Packet(w.at-time.Millisecond, &ipvsmodel.Packet{Client: p.Client, VIP: p.VIP, Protocol: keyOf(s).Protocol, Mark: s.FWMark, Flags: flags})
	p.Backend = w.in.Names[d.Backend.Addr()]
	w.in.Packets = append(w.in.Packets, p)
}

// ports sends n queries from so many source ports in turn.
func (w *world) ports(ports, n int) *world {
	for i := range n {
		w.send(fmt.Sprintf("198.18.0.128:%d", 40000+i%ports), 0)
	}
	return w
}

// read ends the run: counters, and the table two seconds later.
func (w *world) read() Input {
	in := w.in
	in.After = slices.Clone(in.Before)
	counts, _ := w.model.Counts(keyOf(in.Before[0]))
	in.After[0].Destinations = slices.Clone(in.Before[0].Destinations)
	for i, c := range counts {
		d := &in.After[0].Destinations[i]
		d.Weight, d.Stats = c.Weight, proto.IPVSCounters{Conns: c.Connections, InPackets: c.Packets}
	}
	w.model.Advance(w.at + 2*time.Second)
	in.Conns = nil
	for _, e := range w.model.Entries() {
		in.Conns = append(in.Conns, proto.IPVSConn{Protocol: e.Protocol.String(), Client: e.Client, Virtual: e.VIP, Dest: e.Backend, State: e.State, Expires: int(e.Expires / time.Second)})
	}
	return in
}

func flagged(s proto.IPVSService, flags ...string) proto.IPVSService {
	s.Flags = flags
	return s
}

func onePacket(s proto.IPVSService) proto.IPVSService {
	s.OnePacket = true
	return s
}

// TestEqual: whatever the scheduler, nothing differs when the kernel keeps its rules.
func TestEqual(t *testing.T) {
	for _, scheduler := range []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"} {
		for _, ops := range []bool{false, true} {
			s := service(scheduler, "udp", 1, 3, 2)
			s.OnePacket = ops
			in := newWorld(t, s).ports(7, 40).read()
			r := Run(in)
			rows := 7
			if ops {
				rows = 0
			}
			if r.Scope != Packets || r.Differs != "" || r.Script != nil || len(r.Limits) > 0 || *r.Rows != rows || *r.RowsDiffer != 0 {
				t.Errorf("%s ops=%v: %s %q %q rows %d, %d differ", scheduler, ops, r.Scope, r.Limits, r.Differs, *r.Rows, *r.RowsDiffer)
			}
			total := 0
			for _, b := range r.Backends {
				total += *b.Packets
			}
			if total != 40 || len(r.Backends) != 3 {
				t.Errorf("%s: %d packets of 40 over %d backends", scheduler, total, len(r.Backends))
			}
		}
	}
	for _, s := range []proto.IPVSService{flagged(service("sh", "udp", 1, 1), "sh-port"), flagged(service("mh", "udp", 1, 2), "mh-port", "mh-fallback")} {
		if r := Run(newWorld(t, s).ports(20, 20).read()); r.Scope != Packets || r.Differs != "" {
			t.Errorf("%s with ports: %s %q", s.Scheduler, r.Scope, r.Differs)
		}
	}
}

// TestTCP: connections move through their states, and their rows with them.
func TestTCP(t *testing.T) {
	w := newWorld(t, service("wlc", "tcp", 1, 1, 1))
	for port := 40000; port < 40006; port++ {
		w.send(fmt.Sprintf("198.18.0.128:%d", port), ipvsmodel.SYN)
		w.send(fmt.Sprintf("198.18.0.128:%d", port), ipvsmodel.ACK)
	}
	w.send("198.18.0.128:40001", ipvsmodel.FIN|ipvsmodel.ACK)
	w.send("198.18.0.128:40006", ipvsmodel.SYN)
	in := w.read()
	if r := Run(in); r.Scope != Packets || r.Differs != "" || *r.Rows != 7 {
		t.Errorf("%s %q %q", r.Scope, r.Limits, r.Differs)
	}
	i := slices.IndexFunc(in.Conns, func(c proto.IPVSConn) bool { return c.Client.Port() == 40001 })
	in.Conns[i].State = "ESTABLISHED"
	if r := Run(in); !strings.Contains(r.Differs, "198.18.0.128:40001 to 198.18.0.101:53 is in state ESTABLISHED, by the model FIN_WAIT") || *r.RowsDiffer != 1 {
		t.Errorf("a state that is another: %q", r.Differs)
	}
}

// TestOldFormula: a kernel that compares loads as those before 2026 did keeps its rules, too.
func TestOldFormula(t *testing.T) {
	w := newWorld(t, service("lc", "tcp", 1, 1))
	w.model, _ = Model(w.in.Before, nil, ipvsmodel.Kernel{Before2026: true}, 1)
	// One active connection on the head, 257 that have ended on the other: the
	// formulas part where 256·active + inactive and 256·active + all differ.
	w.send("198.18.0.128:1000", ipvsmodel.SYN)
	for port := 2000; port < 2257; port++ {
		w.send(fmt.Sprintf("198.18.0.128:%d", port), ipvsmodel.SYN)
		w.send(fmt.Sprintf("198.18.0.128:%d", port), ipvsmodel.ACK)
		w.send(fmt.Sprintf("198.18.0.128:%d", port), ipvsmodel.RST)
	}
	w.send("198.18.0.128:1001", ipvsmodel.SYN)
	in := w.read()
	if r := run(in, ipvsmodel.Kernel{}); r.Differs == "" {
		t.Fatal("the formulas do not part here: the test shows nothing")
	}
	if r := Run(in); r.Differs != "" {
		t.Errorf("%q", r.Differs)
	}
}

// TestLimits: where the model has no word it says why.
func TestLimits(t *testing.T) {
	change := func(do func(*Input)) func(*testing.T) Input {
		return func(t *testing.T) Input {
			in := newWorld(t, service("rr", "udp", 1, 1)).ports(4, 12).read()
			do(&in)
			return in
		}
	}
	on := func(scheduler string, do func(*world)) func(*testing.T) Input {
		return func(t *testing.T) Input {
			s := service(scheduler, "udp", 1, 1)
			s.Timeouts.UDP = 10
			w := newWorld(t, s)
			w.ports(3, 6)
			do(w)
			return w.read()
		}
	}
	cases := []struct {
		name string
		in   func(*testing.T) Input
		want Scope
		text string
	}{
		{"draws", change(func(in *Input) { in.Before[0].Scheduler = "twos" }), None, "twos draws at random"},
		{"nothing read", change(func(in *Input) { in.Before = nil }), None, "no service"},
		{"nothing sent", change(func(in *Input) { in.Packets = nil }), None, "no packet"},
		{"defence", change(func(in *Input) { in.Sysctl = map[string]string{"net.ipv4.vs.drop_entry": "1"} }), None, "drop_entry"},
		{"a packet too many", change(func(in *Input) { in.After[0].Destinations[0].Stats.InPackets++ }), None, "IPVS counted 13 packets, the captures have 12"},
		{"an unknown flag", change(func(in *Input) { in.Before[0].Flags = []string{"xx"} }), None, `flag "xx"`},
		{"two clients", change(func(in *Input) { in.Clients = 2 }), Counts, "the order between clients is not known"},
		{"two clients and a hash", change(func(in *Input) { in.Clients, in.Before[0].Scheduler = 2, "sh" }), Packets, ""},
		{"two clients and persistence", change(func(in *Input) { in.Clients, in.Before[0].Persistence = 2, 60 }), None, "the counts depend on it"},
		{"a rest as long as an entry lives", on("rr", func(w *world) { w.at += 10 * time.Second; w.ports(3, 3) }), None, "port 40000 rested about as long"},
		{"a longer rest", on("rr", func(w *world) { w.at += 20 * time.Second; w.ports(3, 3) }), Packets, ""},
		{"entries that ended, and a scheduler that counts them", on("lc", func(w *world) { w.at += 20 * time.Second; w.ports(3, 3) }), None, "entries ended"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := Run(c.in(t))
			if r.Scope != c.want || !strings.Contains(strings.Join(r.Limits, "; "), c.text) || c.text == "" && len(r.Limits) > 0 {
				t.Errorf("%s %q, want %s because of %q", r.Scope, r.Limits, c.want, c.text)
			}
		})
	}
}

// TestSeveralClients: counts are the same in any order, and a wrong one is seen.
func TestSeveralClients(t *testing.T) {
	w := newWorld(t, service("wrr", "udp", 1, 2))
	w.in.Clients = 2
	for i := range 30 {
		w.send(fmt.Sprintf("198.18.0.%d:%d", 128+i%2, 40000+i), 0)
	}
	in := w.read()
	slices.SortStableFunc(in.Packets, func(a, b Packet) int { return a.Client.Addr().Compare(b.Client.Addr()) }) // as a clock that is off has it
	r := Run(in)
	if r.Scope != Counts || r.Differs != "" || r.Rows != nil || r.Backends[in.Before[0].Destinations[1].Address] != (Count{Conns: 20}) {
		t.Errorf("%s %q %+v", r.Scope, r.Differs, r.Backends)
	}
	in.After[0].Destinations[0].Stats.Conns++
	if r := Run(in); !strings.HasPrefix(r.Differs, "ns[0] got 11 connections, by the model 10") || r.Script == nil {
		t.Errorf("a counter that is another: %q", r.Differs)
	}
}

// TestFaults: each thing that the kernel may do otherwise is named.
func TestFaults(t *testing.T) {
	cases := []struct {
		name string
		do   func(*Input)
		want string
	}{
		{"an answer by another backend", func(in *Input) { in.Packets[9].Backend = "backend.ns[0]" },
			"packet 10 at 10:00:00.010000 from 198.18.0.128:40001 to udp 198.18.0.101:53: by the model an entry holds the flow at ns[1], the kernel sent it to ns[0]"},
		{"a first packet elsewhere", func(in *Input) { in.Packets[1].Backend = "backend.ns[0]" },
			"packet 2 at 10:00:00.002000 from 198.18.0.128:40001 to udp 198.18.0.101:53: by the model rr chooses ns[1], the kernel sent it to ns[0]"},
		{"a counter", func(in *Input) {
			in.After[0].Destinations[0].Stats.Conns, in.After[0].Destinations[1].Stats.Conns = 1, 3
		}, "ns[0] got 1 connections, by the model 2"},
		{"a row at another backend", func(in *Input) { row(in, 40001).Dest = row(in, 40000).Dest }, "in the table of connections 198.18.0.128:40001 to 198.18.0.101:53 is at ns[0], by the model at ns[1]"},
		{"a row missing", func(in *Input) {
			in.Conns = slices.DeleteFunc(in.Conns, func(c proto.IPVSConn) bool { return c.Client.Port() == 40001 })
		}, "the row of 198.18.0.128:40001 to 198.18.0.101:53 is missing"},
		{"a row too many", func(in *Input) {
			c := in.Conns[0]
			c.Client = netip.MustParseAddrPort("198.18.0.128:9")
			in.Conns = append(in.Conns, c)
		}, "the row of 198.18.0.128:9 to 198.18.0.101:53 at ns[0] is none of the model's"},
		{"a timer", func(in *Input) { row(in, 40002).Expires -= 3 }, "198.18.0.128:40002 to 198.18.0.101:53 has 29"},
		{"nobody's packet", func(in *Input) { in.Packets[0].Backend = "backend.ns[1]" }, "packet 1 "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := newWorld(t, service("rr", "udp", 1, 1, 1)).ports(4, 16).read()
			c.do(&in)
			r := Run(in)
			if !strings.Contains(r.Differs, c.want) {
				t.Errorf("%q, want %q", r.Differs, c.want)
			}
			holds(t, r.Script)
		})
	}
	in := newWorld(t, service("rr", "udp", 1, 1, 1)).ports(4, 16).read()
	in.Packets[5].Backend, in.Packets[6].Backend = "", "director.lb" // nobody answered; who did is hidden
	if r := Run(in); r.Differs != "" {
		t.Errorf("%q", r.Differs)
	}
}

func row(in *Input, port uint16) *proto.IPVSConn {
	return &in.Conns[slices.IndexFunc(in.Conns, func(c proto.IPVSConn) bool { return c.Client.Port() == port })]
}

// holds checks that a script can be read and that the model does what it says.
func holds(t *testing.T, script []byte) {
	t.Helper()
	a := txtar.Parse(script)
	if len(a.Files) != 1 {
		t.Fatalf("the script has %d cases:\n%s", len(a.Files), script)
	}
	s, err := ipvsmodel.ParseScript(bytes.NewReader(append(a.Comment, a.Files[0].Data...)))
	if err != nil {
		t.Fatal(err)
	}
	if wrong, err := s.Run(); err != nil || len(wrong) > 0 {
		t.Errorf("%v, %q in\n%s", err, wrong, script)
	}
}

// TestChangedMeanwhile: somebody edits a weight in the middle; the first packet
// that shows it is named, and so is the edit, which sends wrr back to the head.
func TestChangedMeanwhile(t *testing.T) {
	s := onePacket(service("wrr", "udp", 1, 1, 1))
	w := newWorld(t, s).ports(5, 10)
	spec := ipvsmodel.Destination{Address: netip.MustParseAddrPort("198.18.0.32:53"), Weight: 5}
	if err := w.model.EditDestination(keyOf(s), spec); err != nil {
		t.Fatal(err)
	}
	r := Run(w.ports(5, 20).read())
	for _, want := range []string{"packet 11 at ", "by the model wrr chooses ns[1], the kernel sent it to ns[0]", "198.18.0.32 (weight 1) before the run", "198.18.0.32 (weight 5) after it: somebody has changed it"} {
		if !strings.Contains(r.Differs, want) {
			t.Errorf("%q lacks %q", r.Differs, want)
		}
	}
	for _, want := range []string{"# kernel: 6.1.0-57", "add udp 198.18.0.101:53 3 weight=1 forward=tunnel", "# the kernel: ns[0]", "ops=true"} {
		if !strings.Contains(string(r.Script), want) {
			t.Errorf("the script lacks %q:\n%s", want, r.Script)
		}
	}
	if n := strings.Count(string(r.Script), "\nsend "); n != 11 {
		t.Errorf("%d packets in the script, want 11", n)
	}
	holds(t, r.Script)
}

// TestScriptHasEverything: settings that decide, and TCP.
func TestScriptHasEverything(t *testing.T) {
	s := flagged(service("sh", "tcp", 1, 2), "sh-fallback", "sh-port")
	s.Persistence, s.Netmask = 60, 24
	s.Destinations[0].Upper, s.Destinations[0].Lower = 9, 5
	w := newWorld(t, s)
	w.send("198.18.0.128:1", ipvsmodel.SYN)
	w.at += 1500 * time.Millisecond
	w.send("198.18.0.128:1", ipvsmodel.ACK)
	w.send("198.18.0.128:2", ipvsmodel.ACK) // nobody's
	in := w.read()
	in.After[0].Destinations[0].Stats.Conns += 3
	r := Run(in)
	for _, want := range []string{"sh persist=60s netmask=255.255.255.0 flags=sh-fallback,sh-port", "upper=9 lower=5", "wait 1.501s", "flags=syn", "-> not-a-start"} {
		if !strings.Contains(string(r.Script), want) {
			t.Errorf("the script lacks %q:\n%s", want, r.Script)
		}
	}
	holds(t, r.Script)
}
