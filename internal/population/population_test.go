package population

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/labtest"
)

// lab is a topology with holes for the director, the service and the population.
const lab = `network "lan" { cidr = "198.18.0.0/24" }

director "lb" {
  %s
  nic { network = network.lan }
}

backend "ns" {
  count  = 4
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

service "dns" {
  director = director.lb
  vips     = ["198.18.0.100", "198.18.0.101", "198.18.0.102"]
  forward  = "direct"
  %s
  real_server { backends = backend.ns }
}

population "p" {
  service = service.dns
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

// town is a topology that a random population may be put into.
func town(t testing.TB, director, service, population string) (*lang.Topology, lang.Population) {
	t.Helper()
	top := topology(t, fmt.Sprintf(lab, director, service, population))
	return top, top.Populations[0]
}

func of(t testing.TB, top *lang.Topology, p lang.Population, packets int) Prediction {
	t.Helper()
	out, err := Of(top, p, packets)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// near holds a closed form against the simulation: within five standard errors.
func near(t *testing.T, what string, e Estimate, floor float64) {
	t.Helper()
	if e.Closed == nil {
		t.Errorf("%s: no closed form", what)
		return
	}
	if d := math.Abs(*e.Closed - e.Simulated); d > 5*e.SE+floor {
		t.Errorf("%s: %.6g by the closed form, %.6g ± %.2g by simulation", what, *e.Closed, e.Simulated, e.SE)
	}
}

// TestClosedFormsAgainstSimulation takes populations of every kind, some of them
// small enough to be simulated whole.
func TestClosedFormsAgainstSimulation(t *testing.T) {
	failure := `
  failure {
    backend = backend.ns[1]
    at      = "200s"
    noticed = "5s"
  }`
	back := `
  failure {
    backend = backend.ns[1]
    at      = "200s"
    noticed = "3s"
    back    = "230s"
  }`
	flush := `sysctl = { "net.ipv4.vs.expire_nodest_conn" = "1" }`
	short := `timeout = { udp = "60s" }`
	for _, tc := range []struct {
		name, director, service, population string
	}{
		{"fresh, whole", "", short, `clients = 50
  rate = 60`},
		{"fresh, busy", "", short, `clients = 4
  rate = 9000` + failure},
		{"fresh, thinned by address", "", short, `clients = 200000
  per_address = 10
  rate = 20000
  skew = 0.9` + failure},
		{"kept, slow", "", short, `clients = 3000
  rate = 60
  ports = 2` + failure},
		{"kept, skewed", "", short, `clients = 20000
  per_address = 7
  rate = 2000
  ports = 3
  skew = 1` + failure},
		{"kept, comes back", "", short, `clients = 5000
  rate = 200
  ports = 1` + back},
		{"flushed", flush, short, `clients = 5000
  rate = 200
  ports = 1` + back},
		{"one packet", "", `one_packet = true`, `clients = 5000
  rate = 2000
  ports = 4
  skew = 0.5` + failure},
		{"short", "", "", `clients = 1000
  rate = 300
  ports = 1
  duration = "100s"`},
		{"hash", "", short + "\n scheduler = \"sh\"", `clients = 5000
  rate = 400
  skew = 0.3` + failure},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top, p := town(t, tc.director, tc.service, tc.population)
			c := of(t, top, p, 120_000).Cells[0]
			near(t, "entries", c.Entries, 1e-9)
			near(t, "pinned", c.Pinned, 2e-5)
			for _, o := range c.Outages {
				near(t, "lost", o.Lost, 1e-9)
			}
			if c.Packets > 250_000 {
				t.Errorf("%d packets", c.Packets)
			}
			for _, s := range c.Shares {
				if s.Exact != nil && math.Abs(*s.Exact-s.Simulated) > 5*s.SE {
					t.Errorf("%s: %.4f by hash, %.4f ± %.4f by simulation", s.Backend, *s.Exact, s.Simulated, s.SE)
				}
			}
		})
	}
}

// TestFlow holds the formulas of one flow against a flow that is played.
func TestFlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const timeout, age = 10.0, 70.0
	for _, rate := range []float64{0.02, 0.1, 0.3} {
		for _, window := range []float64{3, 1000} {
			const n = 10000
			lost, held3 := 0.0, 0.0
			for range n {
				last := math.Inf(-1) // time of the last query before the removal at 0
				for at := -age + rng.ExpFloat64()/rate; at < 0; at += rng.ExpFloat64() / rate {
					last = at
				}
				ends := last + timeout
				first := true
				for at := rng.ExpFloat64() / rate; at < min(ends, window); at += rng.ExpFloat64() / rate {
					lost++
				}
				for at := rng.ExpFloat64() / rate; first || at <= 30; at += rng.ExpFloat64() / rate { // still the old entry at 30 s?
					if first = false; at > ends || ends <= 0 {
						break
					}
					if at > 30 {
						break
					}
					ends = at + timeout
				}
				if ends > 30 {
					held3++
				}
			}
			want := dropped(rate, timeout, age, window)
			if got := lost / n; math.Abs(got-want) > 0.06*want+0.005 {
				t.Errorf("rate %g, window %g: dropped %.4f, played %.4f", rate, window, want, got)
			}
			if got, want := held3/n, held(rate, timeout)[3*steps]; math.Abs(got-want) > 0.03*want+0.01 {
				t.Errorf("rate %g: held %.4f after 3 timeouts, played %.4f", rate, want, got)
			}
		}
	}
}

// small draws a population that is quick to predict.
func small(r *rapid.T, p lang.Population) lang.Population {
	p.Clients = rapid.IntRange(1, 4000).Draw(r, "clients")
	p.PerAddress = rapid.IntRange(1, 30).Draw(r, "per address")
	p.Rate = rapid.Float64Range(0.1, 5000).Draw(r, "rate")
	p.Sockets = rapid.IntRange(0, 5).Draw(r, "sockets")
	p.Skew = rapid.SampledFrom([]float64{0, 0.5, 1, 1.5}).Draw(r, "skew")
	p.Seed = rapid.Int64Range(1, 1000).Draw(r, "seed")
	return p
}

func TestProperties(t *testing.T) {
	var tops []*lang.Topology
	var base lang.Population
	for _, s := range []string{"rr", "wlc", "sh", "mh", "dh", "lblc", "sed"} {
		top, p := town(t, "", fmt.Sprintf("scheduler = %q", s), `clients = 1
  rate = 1`)
		tops, base = append(tops, top), p
	}
	rapid.Check(t, func(r *rapid.T) {
		top, p := tops[rapid.IntRange(0, len(tops)-1).Draw(r, "topology")], small(r, base)
		out, err := Of(top, p, 2000)
		if err != nil {
			r.Fatal(err)
		}
		c := out.Cells[0]
		sum, exact := 0.0, 0.0
		for _, s := range c.Shares {
			sum += s.Simulated
			if s.Exact != nil {
				exact += *s.Exact
			} else {
				exact += s.Simulated
			}
		}
		if math.Abs(sum-1) > 1e-9 && sum != 0 || math.Abs(exact-1) > 1e-9 && sum != 0 {
			r.Errorf("shares are %v and %v in all", sum, exact)
		}
		for i, g := range c.Growth {
			if *g.Entries > g.Rate*c.Timeout || *g.Entries < 0 { // Little's law, with at most the timeout after each query
				r.Errorf("%g entries of %g queries a second that each hold one for %g s", *g.Entries, g.Rate, c.Timeout)
			}
			if *g.Pinned < 0 || *g.Pinned > 1 {
				r.Errorf("pinned: %g", *g.Pinned)
			}
			if i > 0 && g.Spread != nil && *g.Spread > *c.Growth[i-1].Spread*(1+1e-9) {
				r.Errorf("×%d: spread %g, before %g", g.Times, *g.Spread, *c.Growth[i-1].Spread)
			}
			if i > 0 && *g.Entries < *c.Growth[i-1].Entries {
				r.Errorf("×%d: %g entries, before %g", g.Times, *g.Entries, *c.Growth[i-1].Entries)
			}
		}
	})
}

// TestTheCrowdIsWhole: rates of clients, of addresses and of flows are one rate.
func TestTheCrowdIsWhole(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := newCrowd(small(r, lang.Population{}), 3, 1)
		byClient, byAddress := 0.0, 0.0
		for i := range c.clients {
			byClient += c.clientRate(i)
		}
		for a := range c.addresses {
			byAddress += c.addressRate(a)
		}
		byFlow, n := 0.0, 0.0
		for _, f := range c.flows {
			byFlow += f.count * f.rate
			n += f.count
		}
		want := float64(c.addresses * c.ports * c.vips)
		if c.sockets > 0 {
			want = float64(c.clients * c.sockets)
		}
		if math.Abs(n-want) > 0.5 {
			r.Errorf("%g flows of %g", n, want)
		}
		for _, got := range []float64{byClient, byAddress, byFlow} {
			if math.Abs(got/c.rate-1) > 1e-4 {
				r.Errorf("%g, %g and %g of %g queries a second", byClient, byAddress, byFlow, c.rate)
			}
		}
	})
}

func TestAddressesAreDistinct(t *testing.T) {
	seen := map[any]bool{}
	for i := range 50_000 {
		a := address(i, 7)
		if b := a.As4()[0]; seen[a] || b == 0 || b >= 224 {
			t.Fatalf("address %d: %v", i, a)
		}
		seen[a] = true
	}
	if address(3, 7) == address(3, 8) {
		t.Error("the seed changes nothing")
	}
}

// TestOneAddressIsOneClient: without its port flag sh cannot tell the clients
// behind a translator apart.
func TestOneAddressIsOneClient(t *testing.T) {
	top, many := town(t, "", `scheduler = "sh"`, `clients = 4000
  per_address = 40
  rate = 400
  ports = 2`)
	alone := many
	alone.Clients, alone.PerAddress = 100, 1
	a, b := of(t, top, many, 8000).Cells[0], of(t, top, alone, 8000).Cells[0]
	for i := range a.Shares {
		if math.Abs(*a.Shares[i].Exact-*b.Shares[i].Exact) > 1e-12 {
			t.Errorf("%s: %g with 40 clients an address, %g with one", a.Shares[i].Backend, *a.Shares[i].Exact, *b.Shares[i].Exact)
		}
	}
	one := many
	one.Clients = 40
	for flag, want := range map[string]bool{"": true, `flags = ["sh-port"]`: false} {
		top, _ := town(t, "", "scheduler = \"sh\"\n"+flag, "clients = 1\n rate = 1")
		most := 0.0
		for _, s := range of(t, top, one, 20000).Cells[0].Shares {
			most = max(most, s.Share())
		}
		if (most > 0.999) != want {
			t.Errorf("%s: the largest share of one address is %g", flag, most)
		}
	}
}

func TestSameSeedSameAnswer(t *testing.T) {
	top, p := town(t, "", `scheduler = "wlc"`, `clients = 2000
  rate = 300`)
	a, b := of(t, top, p, 16000), of(t, top, p, 16000)
	if !reflect.DeepEqual(a, b) {
		t.Error("two answers to one question")
	}
	p.Seed++
	if reflect.DeepEqual(a.Cells[0].Shares, of(t, top, p, 16000).Cells[0].Shares) {
		t.Error("the seed changes nothing")
	}
}

// TestSpread: the closed form is what shares of whole simulations scatter by,
// where the choices have nothing to do with each other.
func TestSpread(t *testing.T) {
	top, p := town(t, "", "scheduler = \"mh\"\n flags = [\"mh-port\"]", `clients = 300
  rate = 8
  ports = 2
  skew = 0.7`)
	c := of(t, top, p, 10_000_000).Cells[0] // whole
	want := *c.Shares[0].Spread
	got := 0.0
	for seed := range int64(20) {
		p.Seed = seed + 10
		for _, s := range of(t, top, p, 10_000_000).Cells[0].Shares {
			got += (s.Simulated - 0.25) * (s.Simulated - 0.25) / 80
		}
	}
	if got = math.Sqrt(got); got < want/1.6 || got > want*1.6 {
		t.Errorf("scatters by %.4f, %.4f expected", got, want)
	}
}

// TestThresholdsAndPersistence: no closed form, but a simulation.
func TestThresholdsAndPersistence(t *testing.T) {
	top, p := town(t, "", `persistence { timeout = "60s" }`, `clients = 500
  rate = 100
  ports = 2`)
	c := of(t, top, p, 80000).Cells[0]
	if c.Entries.Closed != nil || c.Pinned.Closed != nil || c.Growth[1].Entries != nil || c.Entries.Simulated < 1000 {
		t.Errorf("%+v", c)
	}
	full := topology(t, fmt.Sprintf(lab, "", "", "clients = 500\n rate = 100\n ports = 2"))
	for i := range full.Services[0].RealServers {
		full.Services[0].RealServers[i].Upper = 20
	}
	c = of(t, full, full.Populations[0], 80000).Cells[0]
	if c.Unserved < 0.5 || c.Shares[0].Spread != nil {
		t.Errorf("with thresholds of 20 entries %g are sent to nobody", c.Unserved)
	}
}

func example(t testing.TB) *lang.Topology {
	t.Helper()
	text, err := os.ReadFile("../../examples/millions.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return topology(t, string(text))
}

func TestExample(t *testing.T) {
	top := example(t)
	for _, p := range top.Populations {
		golden.Check(t, p.Noun.Name()+".txt", of(t, top, p, 32_000).Text()+"\n")
	}
}

// BenchmarkMillion is the example's million clients, as lvslab predict asks.
func BenchmarkMillion(b *testing.B) {
	top := example(b)
	for b.Loop() {
		of(b, top, top.Populations[0], 1_000_000)
	}
}
