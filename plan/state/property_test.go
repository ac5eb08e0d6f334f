package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/plan/labtest"
	"github.com/lvslab/lvslab/provider/fake"
)

// randomTopology writes a topology. Labels are few, so that two of them have much
// in common.
func randomTopology(t *rapid.T) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	maybe := func(name, text string) {
		if rapid.IntRange(0, 2).Draw(t, name) == 0 {
			line("%s", text)
		}
	}
	line("lab \"random\" {\n}\nnetwork \"lan\" {\n  cidr = \"198.18.0.0/24\"")
	maybe("mtu", "  mtu = 1400")
	line("}")
	line("zone \"lab\" {\n  name = \"lab.test\"\n  records = [for i in range(%s) : { name = \"h${i}\", type = \"A\", values = [\"192.0.2.1\"] }]\n}", one("records", "1", "4"))
	line("client \"c\" {\n  count = %s\n  memory = %q\n  nic {\n    network = network.lan", one("clients", "1", "2"), one("memory", "192MiB", "256MiB"))
	maybe("impair", "    impair {\n      delay = \"2ms\"\n    }")
	line("  }\n}")
	line("director \"lb\" {\n  nic {\n    network = network.lan\n    address = \"198.18.0.20\"\n  }")
	maybe("sysctl", "  sysctl = { \"net.ipv4.vs.conn_reuse_mode\" = 0, \"net.ipv4.tcp_syncookies\" = 1 }")
	line("}")
	forward := one("forward", "tunnel", "tunnel", "direct")
	groups := []string{"ns"}
	if rapid.Bool().Draw(t, "second group") {
		groups = []string{"web", "ns"} // it comes before the first: addresses must not move
	}
	for _, g := range groups {
		line("backend %q {\n  count = %s\n  serves = [zone.lab]\n  nic {\n    network = network.lan\n  }\n}", g, one("backends", "1", "2", "3"))
		if forward == "tunnel" {
			line("tunnel %q {\n  from = director.lb\n  to = backend.%s\n}", g, g)
		}
	}
	vips := rapid.Permutation([]string{"101", "102", "103", "104"}).Draw(t, "vips")
	for _, s := range []string{"one", "two"} {
		n := rapid.IntRange(0, 2).Draw(t, "vips of "+s)
		if n == 0 {
			continue
		}
		line("service %q {\n  director = director.lb\n  scheduler = %q\n  forward = %q", s, one("scheduler", "rr", "wrr", "lc"), forward)
		line("  vips = [\"198.18.0.%s\"]", strings.Join(vips[:n], "\", \"198.18.0."))
		vips = vips[n:]
		for _, g := range groups {
			line("  real_server {\n    backends = backend.%s\n    weight = %s", g, one("weight", "1", "2"))
			if forward == "tunnel" {
				line("    tunnel = tunnel.%s", g)
			}
			line("  }")
		}
		line("}")
	}
	return b.String()
}

// For any two topologies: apply(a) then apply(b) gives the world of apply(b)
// alone, with the addresses that b has by then; the plan after each is empty; and
// no address of a machine that is in both has moved.
func TestAnyTwoTopologies(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := newBed(dir)
		b.parallelism = rapid.IntRange(1, 8).Draw(t, "parallelism")
		before := map[string]string{}
		for _, step := range []string{"a", "b"} {
			top := readLab(t, randomTopology(t))
			if _, err := b.apply(top, nil); err != nil {
				t.Fatalf("apply(%s): %v", step, err)
			}
			if err := b.checkIs(top); err != nil {
				t.Fatalf("after apply(%s): %v", step, err)
			}
			st, _, err := read(b.disk, b.dir)
			if err != nil {
				t.Fatal(err)
			}
			for slot, ip := range st.Addresses {
				if was, had := before[slot]; had && was != ip.String() {
					t.Fatalf("%s moved from %s to %s", slot, was, ip)
				}
				before[slot] = ip.String()
			}
		}
		if err := errors.Join(b.destroy(nil), b.checkIs(nil)); err != nil {
			t.Fatalf("destroy: %v", err)
		}
	})
}

// For any history of applies and destroys, each of which is killed somewhere or
// meets an error, while several calls are in flight: nothing is ever lost from
// sight, the lineage stays, the next apply that is left alone makes its lab, and
// the next destroy leaves nothing.
func TestAnyHistory(t *testing.T) {
	dir := t.TempDir()
	tops := []*labtest.Topology{readLab(t, labtest.Demo()), readLab(t, labtest.Changed()), readLab(t, labtest.Rebuilt()), nil}
	rapid.Check(t, func(t *rapid.T) {
		b, lineage := newBed(dir), ""
		for range rapid.IntRange(1, 5).Draw(t, "operations") {
			b = b.after(t)
			b.parallelism = rapid.IntRange(1, 8).Draw(t, "parallelism")
			var fuse *fake.Fuse
			if rapid.Bool().Draw(t, "killed") {
				fuse = fake.NewFuse(rapid.IntRange(1, 400).Draw(t, "at"))
			}
			for range rapid.IntRange(0, 2).Draw(t, "errors") {
				b.rules = append(b.rules, fake.Rule{
					Nth:   rapid.IntRange(1, 40).Draw(t, "call"),
					Fault: rapid.SampledFrom([]fake.Fault{fake.Fail, fake.FailHalf, fake.FailAfter}).Draw(t, "fault"),
				})
			}
			top := rapid.SampledFrom(tops).Draw(t, "topology")
			if err := (story{to: top}).run(b, fuse); err != nil && !errors.Is(err, fake.ErrCrashed) && !errors.Is(err, fake.ErrScripted) {
				t.Fatal(err)
			}
			b = b.after(t)
			if err := b.checkKnown(lineage); err != nil {
				t.Fatal(err)
			}
			lineage = lineageOf(b)
		}
		last := rapid.SampledFrom(tops[:3]).Draw(t, "last")
		if _, err := b.apply(last, nil); err != nil {
			t.Fatal(err)
		}
		if err := b.checkIs(last); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.destroy(nil), b.checkIs(nil)); err != nil {
			t.Fatal(err)
		}
		if now := lineageOf(b); lineage != "" && now != lineage {
			t.Fatalf("lineage %s, before %s", now, lineage)
		}
	})
}
