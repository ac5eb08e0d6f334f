package walk_test

import (
	"fmt"
	"testing"

	"github.com/lvslab/lvslab/plan/walk"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/fake"
)

// thousand returns 1,000 nodes: a network, 249 machines with three settings each,
// of which the last needs the same setting of the machine before, and three
// services that need every fifth machine's last.
func thousand(size int) []provider.Resource {
	out := []provider.Resource{box("net")}
	var ends []string
	for i := range 249 {
		vm := fmt.Sprint("m", i)
		link, tun, dns := vm+"-link", vm+"-tun", vm+"-dns"
		out = append(out, box(vm, needs("net")), box(link, within(vm)), box(tun, within(vm), needs(link)))
		last := box(dns, within(vm), needs(tun), shape("round", size))
		if i > 0 && i%50 != 0 {
			needs(fmt.Sprint("m", i-1, "-dns"))(&last)
		}
		out = append(out, last)
		if i%5 == 0 {
			ends = append(ends, dns)
		}
	}
	for i := range 3 {
		out = append(out, box(fmt.Sprint("svc", i), needs(ends...), shape("round", size)))
	}
	return out
}

// Created, changed, replaced and deleted, with calls that fail at each stage; the
// race detector watches.
func TestThousandNodes(t *testing.T) {
	b := newBenchIn(t, fake.InMemory())
	b.opt.Parallelism = 64
	for _, stage := range []struct {
		name   string
		wanted []provider.Resource
		fault  fake.Rule
	}{
		{"create", thousand(1), fake.Rule{Op: fake.Create, Addr: at("backend.m60-tun/box"), Nth: 1, Fault: fake.FailHalf}},
		{"change", thousand(2), fake.Rule{Op: fake.Update, Addr: at("backend.m70-dns/box"), Nth: 1, Fault: fake.FailHalf}},
		{"replace", append(thousand(2)[1:], box("net", shape("flat", 1))), fake.Rule{Op: fake.Delete, Addr: at("backend.net/box"), Nth: 1}},
		{"destroy", nil, fake.Rule{Op: fake.Delete, Addr: at("backend.m80/box"), Nth: 1, Fault: fake.FailAfter}},
	} {
		if n := len(stage.wanted); n != 1000 && n != 0 {
			t.Fatalf("%d nodes", n)
		}
		b.fake.Script(stage.fault)
		res := b.apply(stage.wanted...)
		if len(res.Failures) != 1 {
			t.Errorf("%s: %v", stage.name, res.Err())
		}
		checkOnce(t, stage.name, b.events)
		for res.Err() != nil {
			_, p := b.look(stage.wanted...)
			b.events = nil
			res = walk.Run(t.Context(), p, b.opt)
		}
		checkWorld(t, b, stage.wanted)
	}
}

// checkOnce: every step that began has ended, and nothing ended twice.
func checkOnce(t *testing.T, stage string, events []walk.Event) {
	t.Helper()
	type key struct {
		op   string
		addr string
	}
	begun, ended := map[key]bool{}, map[key]bool{}
	for _, e := range events {
		k := key{string(e.Op), e.Change.Addr.String()}
		if e.Kind == walk.Started {
			begun[k] = true
			continue
		}
		if ended[k] {
			t.Errorf("%s: %v ended twice", stage, k)
		}
		ended[k] = true
	}
	for k := range begun {
		if !ended[k] {
			t.Errorf("%s: %v never ended", stage, k)
		}
	}
}
