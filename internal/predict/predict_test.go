package predict

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/topologies"
)

// lab is a topology with holes for what a service, a client and an experiment say.
const lab = `network "lan" { cidr = "10.0.0.0/24" }

client "c" {
  count = %d
  nic { network = network.lan }
}

director "lb" {
  sysctl = { "net.ipv4.vs.expire_nodest_conn" = "%d" }
  nic { network = network.lan }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "t" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director   = director.lb
  vip        = "10.0.0.100"
  port       = 53
  scheduler  = "rr"
  %s
  real_server {
    backends = backend.ns
    tunnel   = tunnel.t
    %s
  }
}

experiment "x" {
  service    = service.dns
  clients    = client.c
  iterations = 20
  %s
}
`

func topology(t testing.TB, text string) *lang.Topology {
	t.Helper()
	top, err := labtest.Resolve(text)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// of predicts the experiment of a topology. The language refuses twos, which
// the guests' kernel lacks, so change may make a treatment one of twos.
func of(t testing.TB, text string, change ...func(*experiment.Treatment)) Prediction {
	t.Helper()
	top := topology(t, text)
	treatments, ds := experiment.Treatments(top, top.Experiments[0])
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	for i := range treatments {
		for _, f := range change {
			f(&treatments[i])
		}
	}
	p, err := Of(top, top.Experiments[0], treatments, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// design fills the lab: clients, expire_nodest_conn, service, real servers,
// experiment.
func design(clients, nodest int, service, servers, exp string) string {
	return fmt.Sprintf(lab, clients, nodest, service, servers, exp)
}

const load20 = `load "dnsperf" {
    queries = 1000
    sockets = 20
  }`

// own is a load of the agent's generator with fresh ports.
func own(protocol string, window int) string {
	return fmt.Sprintf(`
	load "lvslab" {
    queries  = 1000
    sockets  = "fresh"
    protocol = %q
    window   = %d
  }`, protocol, window)
}

// Ports that are known make what hashes them certain: the model is asked about
// these very ports.
func TestKnownPorts(t *testing.T) {
	text := design(2, 0, "", "", "factor \"flags\" { values = [[\"sh-port\"]] }\nfactor \"scheduler\" { values = [\"sh\"] }\n"+own("udp", 100))
	top := topology(t, text)
	c := of(t, text).Cells[0]
	want := map[string]int{}
	for _, n := range top.Experiments[0].Clients {
		m, _ := top.Machine(n)
		tr, _ := experiment.Treatments(top, top.Experiments[0])
		ports, err := experiment.SourcePorts(top.Experiments[0], tr[0].Setting, m.Address(), 0, 1000)
		if err != nil || len(ports) != 1000 {
			t.Fatal(len(ports), err)
		}
		a := m.Address().As4()
		for _, p := range ports { // ip_vs_sh.c: 256 buckets filled in turn; the key is port + address
			key := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
			want[fmt.Sprintf("backend.ns[%d]", ipvsmodel.Hash32(key+uint32(p), 8)%3)]++
		}
	}
	if c.Kind != Exact || !cmp.Equal(c.Planned(), want) {
		t.Errorf("%s: planned %v, want %v", c.Kind, c.Planned(), want)
	}
}

// TestTexts shows what people read of designs of each kind.
func TestTexts(t *testing.T) {
	paper, _ := topologies.Get("lvs-tun-dns")
	all := `factor "scheduler" { values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"] }`
	for name, text := range map[string]string{
		"paper":      string(paper),
		"ports":      design(1, 0, "", "", all+"\n"+load20),
		"packets":    design(1, 0, "", "", all+"\nfactor \"one_packet\" { values = [true] }\n"+load20),
		"tcp":        design(1, 0, "", "", all+"\nfactor \"protocol\" { values = [\"tcp\"] }\n"+load20),
		"flags":      design(2, 1, "", "", "factor \"scheduler\" { values = [\"sh\", \"mh\"] }\nfactor \"flags\" { values = [[], [\"sh-port\", \"mh-port\"]] }\n"+load20),
		"thresholds": design(3, 0, "", "upper = 3", "factor \"scheduler\" { values = [\"rr\", \"dh\"] }\n"+load20),
		"rotating":   design(1, 0, "", "", "controls {\n aa = true\n rotate = true\n }\nfactor \"scheduler\" { values = [\"sed\"] }\n"+load20),
		"paced":      design(1, 0, "timeout = { udp = \"1s\" }", "", "factor \"rate\" { values = [10, 100] }\n"+strings.ReplaceAll(load20, "1000", "400")),
	} {
		t.Run(name, func(t *testing.T) { golden.Check(t, name+".txt", of(t, text).Text()+"\n") })
	}
}

// TestMeasured holds predictions against what kernels did with the same design:
// 1,000 queries of dnsperf over 20 sockets, and 30 TCP connections at once.
func TestMeasured(t *testing.T) {
	want := map[string][]float64{ // list order, head first
		"rr": {350, 350, 300}, "wrr": {350, 350, 300}, "lc": {350, 350, 300}, "wlc": {350, 350, 300},
		"lblc": {1000, 0, 0}, "lblcr": {1000, 0, 0}, "sed": {1000, 0, 0}, "nq": {1000, 0, 0},
	}
	got := of(t, design(1, 0, "", "", `factor "scheduler" { values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sed", "nq"] }`+"\n"+load20))
	for _, c := range got.Cells {
		if q := queriesOf(c); !slices.Equal(q, want[c.Factors["scheduler"]]) || c.Decisions != 20 || c.Kind != Exact {
			t.Errorf("%s: %v by %d decisions (%s), want %v", c.Treatment, q, c.Decisions, c.Kind, want[c.Factors["scheduler"]])
		}
	}
	tcp := of(t, design(1, 0, "", "", "factor \"scheduler\" { values = [\"sed\", \"nq\", \"lblc\"] }\nfactor \"protocol\" { values = [\"tcp\"] }\n"+
		"load \"dnsperf\" {\n queries = 300\n sockets = 30\n }"))
	for i, want := range [][]float64{{10, 10, 10}, {10, 10, 10}, {2, 2, 26}} {
		var got []float64
		for _, s := range tcp.Cells[i].Shares {
			got = append(got, s.Decisions)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: connections %v, want %v", tcp.Cells[i].Treatment, got, want)
		}
	}
}

func queriesOf(c Cell) (out []float64) {
	for _, s := range c.Shares {
		out = append(out, s.Queries)
	}
	return out
}

func TestSameTreatments(t *testing.T) {
	p := of(t, design(1, 0, "", "", `factor "scheduler" { values = ["rr", "dh", "sed", "nq", "mh"] }
factor "sockets" { values = [1, 20] }
load "dnsperf" { queries = 100 }`))
	group := map[string]int{}
	for _, c := range p.Cells {
		group[c.Treatment] = c.Group
	}
	same := func(a, b string) bool { return group[a] == group[b] }
	if !same("scheduler=rr,sockets=1", "scheduler=sed,sockets=1") || !same("scheduler=sed,sockets=20", "scheduler=nq,sockets=20") {
		t.Errorf("rr, sed and nq with one socket, sed and nq with 20 are one: %v", group)
	}
	if same("scheduler=rr,sockets=20", "scheduler=sed,sockets=20") || same("scheduler=sed,sockets=1", "scheduler=sed,sockets=20") {
		t.Errorf("a load of 20 sockets is not one of one: %v", group)
	}
}

func TestDrawnShares(t *testing.T) {
	twos := func(tr *experiment.Treatment) { tr.Setting.Scheduler = "twos" }
	p := of(t, design(1, 0, "one_packet = true", "", load20), twos)
	c := p.Cells[0]
	for i, want := range []float64{0.5, 0.25, 0.25} {
		s := c.Shares[i]
		if math.Abs(s.Share-want) > 1e-9 || s.Low == nil || *s.Low >= want || *s.High <= want {
			t.Errorf("place %d: share %v (%v to %v), want %v within", i, s.Share, s.Low, s.High, want)
		}
	}
	if c.Kind != Chance || c.Decisions != 1000 {
		t.Errorf("kind %s, %d decisions", c.Kind, c.Decisions)
	}
	// With entries the loads even the draws out; the head keeps a lead of a
	// decision or two out of 20, because a quarter of the draws know it alone.
	c = of(t, design(1, 0, "", "", load20), twos).Cells[0]
	if head, rest := c.Shares[0].Share, c.Shares[1].Share; head < rest || head > 0.45 || rest < 0.25 || c.Decisions != 20 {
		t.Errorf("shares %v and %v by %d decisions", head, rest, c.Decisions)
	}
}

// TestCut: a long load is cut and scaled, and says the same as the whole.
func TestCut(t *testing.T) {
	top := topology(t, design(1, 0, "one_packet = true", "", "factor \"scheduler\" { values = [\"rr\", \"lc\"] }\nload \"dnsperf\" {\n queries = 300000\n sockets = 20\n }"))
	treatments, _ := experiment.Treatments(top, top.Experiments[0])
	p, err := Of(top, top.Experiments[0], treatments, 6000, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float64{{100000, 100000, 100000}, {300000, 0, 0}} {
		if got := queriesOf(p.Cells[i]); !slices.Equal(got, want) || p.Cells[i].Decisions != 300000 {
			t.Errorf("%s: %v by %d decisions, want %v", p.Cells[i].Treatment, got, p.Cells[i].Decisions, want)
		}
	}
}

func TestFate(t *testing.T) {
	exp := "factor \"one_packet\" { values = [false, true] }\nload \"dnsperf\" {\n queries = 1000\n rate = 100\n }"
	p := of(t, design(1, 0, "", "", exp))
	if c := p.Cells[0]; c.Entries != 1 || c.EntryMin != 300 || c.EntryMax < 316 || c.Hurts != c.EntryMax || c.Reuse == nil || math.Abs(*c.Reuse-0.654) > 0.001 {
		t.Errorf("entries: %+v, reuse %v", c, c.Reuse)
	}
	if c := p.Cells[1]; c.Entries != 0 || c.EntryMax != 0 || c.Hurts != 0 || c.Reuse != nil || c.Pinned != 0 {
		t.Errorf("one-packet: %+v", c)
	}
	if c := of(t, design(1, 1, "", "", exp)).Cells[0]; c.Hurts != 0 || c.EntryMin != 300 {
		t.Errorf("with expire_nodest_conn: %+v", c)
	}
}

// TestPlanned: only what is certain is planned.
func TestPlanned(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]map[string]int
	}{
		"certain": {design(1, 0, "", "", `factor "scheduler" { values = ["rr", "nq"] }`+"\n"+load20), map[string]map[string]int{
			"scheduler=rr": {"backend.ns[0]": 7, "backend.ns[1]": 7, "backend.ns[2]": 6},
			"scheduler=nq": {"backend.ns[0]": 20, "backend.ns[1]": 0, "backend.ns[2]": 0}}},
		"two clients": {design(2, 0, "", "", load20), map[string]map[string]int{}},
		"tcp":         {design(1, 0, "", "", "factor \"protocol\" { values = [\"tcp\"] }\n"+load20), map[string]map[string]int{}},
		"ports":       {design(1, 0, "", "", "factor \"flags\" { values = [[\"sh-port\"]] }\nfactor \"scheduler\" { values = [\"sh\"] }\n"+load20), map[string]map[string]int{}},
		"short-lived": {design(1, 0, "timeout = { udp = \"1s\" }", "", load20), map[string]map[string]int{}},
		"persistence": {design(1, 0, "persistence { timeout = \"60s\" }", "", load20), map[string]map[string]int{}},
		"fresh": {design(1, 0, "", "", `factor "scheduler" { values = ["rr", "sed"] }
			factor "one_packet" { values = [false, true] }`+own("udp", 100)), map[string]map[string]int{
			"scheduler=rr,one_packet=false":  {"backend.ns[0]": 334, "backend.ns[1]": 333, "backend.ns[2]": 333},
			"scheduler=rr,one_packet=true":   {"backend.ns[0]": 334, "backend.ns[1]": 333, "backend.ns[2]": 333},
			"scheduler=sed,one_packet=false": {"backend.ns[0]": 1000, "backend.ns[1]": 0, "backend.ns[2]": 0},
			"scheduler=sed,one_packet=true":  {"backend.ns[0]": 1000, "backend.ns[1]": 0, "backend.ns[2]": 0}}},
		"kept connections": {design(1, 0, "", "", `factor "protocol" { values = ["tcp"] }
			factor "scheduler" { values = ["sed", "nq"] }
			factor "sockets" { values = [30] }`+own("tcp", 100)), map[string]map[string]int{
			"protocol=tcp,scheduler=sed,sockets=30": {"backend.ns[0]": 10, "backend.ns[1]": 10, "backend.ns[2]": 10},
			"protocol=tcp,scheduler=nq,sockets=30":  {"backend.ns[0]": 10, "backend.ns[1]": 10, "backend.ns[2]": 10}}},
		"one connection after the other": {design(1, 0, "", "", `factor "protocol" { values = ["tcp"] }
			factor "scheduler" { values = ["rr", "sed", "nq"] }`+own("tcp", 1)), map[string]map[string]int{
			"protocol=tcp,scheduler=rr":  {"backend.ns[0]": 334, "backend.ns[1]": 333, "backend.ns[2]": 333},
			"protocol=tcp,scheduler=sed": {"backend.ns[0]": 1000, "backend.ns[1]": 0, "backend.ns[2]": 0},
			"protocol=tcp,scheduler=nq":  {"backend.ns[0]": 1000, "backend.ns[1]": 0, "backend.ns[2]": 0}}},
		"connections that overlap": {design(1, 0, "", "", `factor "protocol" { values = ["tcp"] }
			factor "scheduler" { values = ["rr", "sed"] }`+own("tcp", 100)), map[string]map[string]int{
			"protocol=tcp,scheduler=rr": {"backend.ns[0]": 334, "backend.ns[1]": 333, "backend.ns[2]": 333}}},
		"lossy client": {strings.Replace(design(1, 0, "", "", load20), "nic { network = network.lan }", "nic {\n network = network.lan\n impair { loss = \"1%\" }\n }", 1), map[string]map[string]int{}},
	} {
		got := map[string]map[string]int{}
		for _, cell := range of(t, c.text).Cells {
			if p := cell.Planned(); p != nil {
				got[cell.Treatment] = p
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPicture: the drawing is well-formed and holds every treatment.
func TestPicture(t *testing.T) {
	p := of(t, design(1, 0, "", "", "factor \"scheduler\" { values = [\"rr\", \"dh\", \"sh\"] }\n"+load20))
	text := SVG([]Prediction{p, p})
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "picture.svg", text)
}

// BenchmarkDemo is the prediction of the demonstration's study.
func BenchmarkDemo(b *testing.B) {
	text, _ := topologies.Get("lvs-tun-dns")
	for b.Loop() {
		of(b, string(text))
	}
}

func TestNamesOfEqualTreatments(t *testing.T) {
	for want, of := range map[string][]string{
		"sed, nq (sockets=1)":                            {"scheduler=sed,sockets=1", "scheduler=nq,sockets=1"},
		"rr, lc; control=aa":                             {"scheduler=rr", "scheduler=lc", "control=aa"},
		"scheduler=rr,sockets=1; control=aa":             {"scheduler=rr,sockets=1", "control=aa"},
		"scheduler=rr,sockets=1; scheduler=lc,sockets=2": {"scheduler=rr,sockets=1", "scheduler=lc,sockets=2"},
		"control=aa":                                     {"control=aa"},
	} {
		if got := names(of); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
