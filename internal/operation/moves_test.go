package operation

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider"
)

const rename = `
network "lan" { cidr = "198.18.0.0/24" }
director "lb" {
  nic { network = network.lan }
}
backend "old" {
  count  = 2
  serves = [zone.z]
  nic { network = network.lan }
}
zone "z" {
  name    = "z.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}
tunnel "t" {
  from = director.lb
  to   = backend.old
}
service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  real_server {
    backends = backend.old
    tunnel   = tunnel.t
  }
}
`

// applied is the state as an apply of a topology would leave it.
func applied(t *testing.T, s *Settings, text string, prior state.State) (*study, state.State, []provider.Resource) {
	t.Helper()
	if err := os.WriteFile("lab.hcl", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	st, err := s.parse("lab.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.resolve(st, prior); err != nil {
		t.Fatal(err)
	}
	wanted, err := lower.Resources(st.topology, st.layout, lower.Options{LabDir: "/lab", Accelerator: "tcg"})
	if err != nil {
		t.Fatal(err)
	}
	out := prior.Renamed(st.renames)
	out.Addresses, out.Identities, out.Resources = st.addresses, st.layout.Identities, nil
	for _, w := range wanted {
		r, err := state.NewResource(w, w.Attrs, state.OK)
		if err != nil {
			t.Fatal(err)
		}
		out.Put(r)
	}
	return st, out, wanted
}

// changesTo plans from a state to a topology.
func changesTo(t *testing.T, s *Settings, text string, prior state.State) ([]string, state.State) {
	t.Helper()
	st, next, wanted := applied(t, s, text, prior)
	ps, err := offline()
	if err != nil {
		t.Fatal(err)
	}
	now := prior.Renamed(st.renames)
	have, err := now.Existing(ps)
	if err != nil {
		t.Fatal(err)
	}
	p, err := diff.Compute(diff.Input{Providers: ps, Wanted: wanted, Have: have})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range p.Changes {
		if c.Action != provider.NoOp {
			out = append(out, fmt.Sprintf("%s %s", c.Action, c.Addr))
		}
	}
	return out, next
}

// TestMovedStaysWhatItIs: renaming blocks touches nothing but the name that
// backends give in their answers.
func TestMovedStaysWhatItIs(t *testing.T) {
	s := settings(t)
	_, was, _ := applied(t, s, rename, state.State{Lineage: state.NewLineage()})
	moved := strings.NewReplacer("backend.old", "backend.web", `backend "old"`, `backend "web"`, "network.lan", "network.net", `network "lan"`, `network "net"`,
		"tunnel.t", "tunnel.u", `tunnel "t"`, `tunnel "u"`, "director.lb", "director.front[0]", `director "lb" {`, "director \"front\" {\n  count = 1").Replace(rename) + `
moved {
  from = backend.old
  to   = backend.web
}
moved {
  from = network.lan
  to   = network.net
}
moved {
  from = tunnel.t
  to   = tunnel.u
}
moved {
  from = director.lb
  to   = director.front[0]
}
`
	got, now := changesTo(t, s, moved, was)
	if want := "update backend.web[0]/dns, update backend.web[1]/dns"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	for slot, ip := range was.Addresses {
		slot = strings.NewReplacer("backend.old", "backend.web", "director.lb", "director.front[0]").Replace(slot)
		if now.Addresses[slot] != ip {
			t.Errorf("%s had %s, has %s", slot, ip, now.Addresses[slot])
		}
	}
	// Once written, nothing is left to be done, with the moved blocks or without.
	for _, text := range []string{moved, moved[:strings.Index(moved, "moved {")]} {
		if got, _ := changesTo(t, s, text, now); len(got) > 0 {
			t.Errorf("afterwards: %v", got)
		}
	}
	// A new block by the old name is another one.
	both := moved[:strings.Index(moved, "moved {")] + `
backend "old" {
  count  = 2
  serves = [zone.z]
  nic { network = network.net }
}
`
	got, now = changesTo(t, s, both, now)
	if len(got) != 8 || strings.Contains(strings.Join(got, " "), "web") || strings.Contains(strings.Join(got, " "), "replace") {
		t.Errorf("a new block: %v", got)
	}
	if got, _ := changesTo(t, s, both, now); len(got) > 0 {
		t.Errorf("and afterwards: %v", got)
	}
}
