package topo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

func noun(t *testing.T, s string) addr.Noun {
	t.Helper()
	n, err := addr.ParseNoun(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nouns(t *testing.T, list string) []addr.Noun {
	t.Helper()
	var out []addr.Noun
	for _, s := range strings.Fields(list) {
		out = append(out, noun(t, s))
	}
	return out
}

func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name, moves, declared, exists, want string
		warnings                            int
	}{
		{"nothing", "", "backend.ns", "backend.ns", "", 0},
		{"a block with its instances", "backend.old>backend.ns", "backend.ns[0] backend.ns[1]", "backend.old[0] backend.old[1]",
			"backend.old[0]>backend.ns[0] backend.old[1]>backend.ns[1]", 0},
		{"one instance", "backend.ns[2]>backend.ns[0]", "backend.ns[0] backend.ns[1]", "backend.ns[1] backend.ns[2]", "backend.ns[2]>backend.ns[0]", 0},
		{"two steps, told in any order", "client.b>client.c client.a>client.b", "client.c", "client.a", "client.a>client.c", 0},
		{"both steps at once", "client.b>client.c client.a>client.b", "client.c", "client.a client.b", "client.a>client.c", 1},
		{"a place that is taken", "client.a>client.b", "client.b", "client.a client.b", "", 1},
		{"a place that becomes free", "client.b>client.c client.a>client.x", "client.c client.x", "client.a client.b", "client.a>client.x client.b>client.c", 0},
		{"gains a count", "", "client.c[0] client.c[1]", "client.c", "client.c>client.c[0]", 0},
		{"loses its count", "", "client.c", "client.c[0] client.c[1]", "client.c[0]>client.c", 0},
		{"is gone", "", "client.d", "client.c[0]", "", 0},
		{"tunnels follow", "backend.old>backend.ns", `backend.ns[0] tunnel.t["backend.ns[0]"]`, `backend.old[0] tunnel.t["backend.old[0]"]`,
			`backend.old[0]>backend.ns[0] tunnel.t["backend.old[0]"]>tunnel.t["backend.ns[0]"]`, 0},
		{"tunnels that were renamed, too", "backend.old>backend.ns tunnel.t>tunnel.u", `backend.ns[0] tunnel.u["backend.ns[0]"]`, `tunnel.t["backend.old[0]"]`,
			`tunnel.t["backend.old[0]"]>tunnel.u["backend.ns[0]"]`, 0},
		{"keys of the user's own", "", `tunnel.t["k"]`, `tunnel.t["k"]`, "", 0},
		{"into a module", "backend.ns>module.m.backend.x", "module.m.backend.x[0]", "backend.ns[0]", "backend.ns[0]>module.m.backend.x[0]", 0},
		{"a module", "module.a>module.b", "module.b.client.c module.b.module.in.client.d", "module.a.client.c module.a.module.in.client.d",
			"module.a.client.c>module.b.client.c module.a.module.in.client.d>module.b.module.in.client.d", 0},
		{"one instance of a module", "module.a[1]>module.b", "module.a[0].client.c module.b.client.c", "module.a[0].client.c module.a[1].client.c",
			"module.a[1].client.c>module.b.client.c", 0},
		{"a module gains a count", "", "module.a[0].client.c", "module.a.client.c", "module.a.client.c>module.a[0].client.c", 0},
		{"a module loses its count", "", "module.a.client.c", "module.a[0].client.c module.a[1].client.c", "module.a[0].client.c>module.a.client.c", 0},
		{"a call inside a module", "module.a.module.x>module.a.module.y", "module.a.module.y.client.c", "module.a.module.x.client.c", "module.a.module.x.client.c>module.a.module.y.client.c", 0},
	} {
		sk := &lang.Skeleton{Nouns: nouns(t, c.declared)}
		for _, m := range strings.Fields(c.moves) {
			from, to, _ := strings.Cut(m, ">")
			sk.Moves = append(sk.Moves, lang.Move{From: noun(t, from), To: noun(t, to)})
		}
		renames, ds := Follow(sk, nouns(t, c.exists))
		var got []string
		for _, r := range renames.Sorted() {
			got = append(got, fmt.Sprintf("%s>%s", r.From, r.To))
		}
		if strings.Join(got, " ") != c.want || len(ds) != c.warnings {
			t.Errorf("%s: %s\nwant %s; %v", c.name, got, c.want, ds)
		}
	}
}

// TestIdentitiesOfMoved: what has moved keeps its names, and what takes its old
// address gets others.
func TestIdentitiesOfMoved(t *testing.T) {
	lan := lang.Network{Noun: addr.N(addr.Network, "lan")}
	machine := func(label string) lang.Machine {
		return lang.Machine{Noun: addr.N(addr.Client, label), NICs: []lang.NIC{{Network: lan.Noun}}}
	}
	before, err := Lay(&lang.Topology{Networks: []lang.Network{lan}, Machines: []lang.Machine{machine("a")}}, "l")
	if err != nil {
		t.Fatal(err)
	}
	a, b := addr.N(addr.Client, "a"), addr.N(addr.Client, "b")
	after := &lang.Topology{Networks: []lang.Network{lan}, Machines: []lang.Machine{machine("a"), machine("a-2"), machine("b")}}
	now, err := LayAs(after, "l", map[addr.Noun]addr.Noun{b: a})
	if err != nil {
		t.Fatal(err)
	}
	if now.Machines[b].UUID != before.Machines[a].UUID || now.Machines[b].Domain != before.Machines[a].Domain || now.Machines[b].NICs[0].MAC != before.Machines[a].NICs[0].MAC {
		t.Errorf("the moved one is another: %+v, was %+v", now.Machines[b], before.Machines[a])
	}
	seen := map[string]bool{}
	for _, m := range now.Machines {
		for _, name := range []string{m.UUID, m.Domain, m.Hostname, m.NICs[0].MAC} {
			if seen[name] {
				t.Errorf("%s stands twice", name)
			}
			seen[name] = true
		}
	}
	if now.Identity(a) != addr.N(addr.Client, "a-3") {
		t.Errorf("the new one is known as %s", now.Identity(a))
	}
	again, err := LayAs(after, "l", now.Identities)
	if err != nil || fmt.Sprint(again.Machines) != fmt.Sprint(now.Machines) {
		t.Errorf("laid out again it differs: %v", err)
	}
}
