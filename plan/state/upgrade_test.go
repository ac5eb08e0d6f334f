package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

func larger(label string) provider.Resource {
	r := thing(label)
	attrs := r.Attrs.AsValueMap()
	attrs["size"] = cty.NumberIntVal(4)
	r.Attrs = cty.ObjectVal(attrs)
	return r
}

// state.v1.json was written by an lvslab that knew only format 1.
func TestFormat1IsUpgradedAndKept(t *testing.T) {
	old, err := os.ReadFile("testdata/state.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(statePath(dir), old, 0o600); err != nil {
		t.Fatal(err)
	}
	s := create(t, dir)
	st := s.State()
	if st.Version != Version || st.Serial != 12 || len(st.Resources) != 2 || st.Resources[1].Status != Tainted {
		t.Fatalf("%+v", st)
	}
	if v, err := st.Resources[0].Value(thingSchema); err != nil || v.GetAttr("size").IsNull() {
		t.Errorf("%#v, %v", v, err)
	}
	// Looking changes nothing, neither does a change that is none.
	if err := s.Update(func(*State) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(statePath(dir)); err != nil || !bytes.Equal(now, old) {
		t.Errorf("the file was written without a change: %v", err)
	}
	put(t, s, "new")
	if got, err := Read(dir); err != nil || got.Version != Version || got.Serial != 13 || got.Lineage != st.Lineage || len(got.Resources) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "backups", "state.000000000012.json"))
	if err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the state of format 1 is not among the backups: %v", err)
	}
}

func TestEveryFormatHasItsUpgrade(t *testing.T) {
	for v := 1; v < Version; v++ {
		if upgrades[v] == nil {
			t.Errorf("nothing upgrades format %d", v)
		}
	}
	for _, text := range []string{`{"version":0}`, `{"version":-1}`, `{}`} {
		if _, err := decode([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// An update that failed, or was interrupted, leaves both descriptions.
func TestHalfDoneUpdates(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "failed")
	put(t, s, "killed")
	put(t, s, "done")
	bigger := func(label string) (uint64, error) {
		return s.Recorder().Begin(plan.Update, larger(label))
	}
	seq, err := bigger("failed")
	if err == nil {
		err = s.Recorder().HalfDone(seq, larger("failed"), errors.New("broken pipe"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if seq, err = bigger("done"); err == nil {
		err = s.Recorder().HalfDone(seq, larger("done"), errors.New("broken pipe"))
	}
	if err == nil {
		err = s.Recorder().Made(0, larger("done"), larger("done").Attrs, nil) // the next try did it
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bigger("killed"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = create(t, dir)
	if _, err := s.Recover(); err != nil {
		t.Fatal(err)
	}
	st := s.State()
	for label, half := range map[string]bool{"failed": true, "killed": true, "done": false} {
		r, _ := st.Resource(thing(label).Addr)
		if r.Status != OK || (len(r.Half) > 0) != half {
			t.Errorf("%s: %+v", label, r)
		}
	}
	if len(s.Pending()) != 0 {
		t.Errorf("pending: %+v", s.Pending())
	}
}

func TestMove(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	a, b, c := thing("a"), thing("b"), thing("c")
	b.Within, b.DependsOn = a.Addr, append(b.DependsOn, a.Addr)
	if err := s.Recorder().Made(0, a, a.Attrs, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Recorder().Made(0, b, b.Attrs, nil); err != nil {
		t.Fatal(err)
	}
	moves := map[addr.Noun]addr.Noun{a.Addr.Noun: c.Addr.Noun}
	if err := s.Move(moves, nil); err != nil {
		t.Fatal(err)
	}
	st, err := Read(dir)
	if err != nil || len(st.Resources) != 2 || st.Resources[0].Within != c.Addr || st.Resources[0].DependsOn[0] != c.Addr || st.Resources[1].Addr != c.Addr {
		t.Errorf("%+v, %v", st, err)
	}
	if st.Identities[c.Addr.Noun] != a.Addr.Noun || len(st.Identities) != 1 {
		t.Errorf("identities: %v", st.Identities)
	}
	if err := s.Move(map[addr.Noun]addr.Noun{b.Addr.Noun: c.Addr.Noun}, nil); err == nil {
		t.Error("two resources have one address")
	}
	if err := s.Move(nil, func(st *State) error { st.Resources = st.Resources[:1]; return nil }); !errors.Is(err, ErrForgetting) {
		t.Errorf("a resource was lost: %v", err)
	}
}
