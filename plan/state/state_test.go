package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

var thingSchema = provider.Schema{Noun: "thing", Attributes: map[string]provider.Attribute{
	"size": {Type: cty.Number}, "names": {Type: cty.List(cty.String)}, "id": {Type: cty.String, Computed: true},
}}

func thing(label string) provider.Resource {
	return provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Backend, label), Part: "domain"}, Type: "thing",
		Attrs: cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(3),
			"names": cty.ListVal([]cty.Value{cty.StringVal(label)}), "id": cty.NullVal(cty.String)})}
}

func create(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenOrCreate(context.Background(), dir, "lab", "lab.hcl", Options{Lvslab: "test", Command: "lvslab test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, label string) {
	t.Helper()
	rec, err := NewResource(thing(label), thing(label).Attrs, OK)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(st *State) error { st.Put(rec); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestWriteAndReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".lvslab", "lab")
	s := create(t, dir)
	first, err := Read(dir)
	if err != nil || first.Serial != 1 || len(first.Lineage) != 32 {
		t.Fatalf("a new state is not on the disk: %+v, %v", first, err)
	}
	put(t, s, "b")
	put(t, s, "a")
	out, err := NewOutput(cty.MapVal(map[string]cty.Value{"x": cty.NumberFloatVal(0.25)}), true)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(st *State) error {
		st.Hypervisor = json.RawMessage(`{"pid":1}`)
		st.Addresses = map[string]netip.Addr{"client.c[0]/nic.0": netip.MustParseAddr("198.18.0.128")}
		st.Outputs = map[string]Output{"shares": out}
		st.Study, st.LastArtifact = "abc", "results/lab/1"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.State(), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b addr.Resource) bool { return a == b }),
		cmp.Comparer(func(a, b json.RawMessage) bool { return compact(t, a) == compact(t, b) })); diff != "" {
		t.Error(diff)
	}
	if got.Serial != 4 || got.Resources[0].Addr != thing("a").Addr {
		t.Errorf("serial %d, first resource %s", got.Serial, got.Resources[0].Addr)
	}
	if v, err := got.Outputs["shares"].Cty(); err != nil || !v.Index(cty.StringVal("x")).RawEquals(cty.MustParseNumberVal("0.25")) {
		t.Errorf("output %#v, %v", v, err)
	}
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if len(raw) == 0 {
		return ""
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func TestLineageOfASavedPlan(t *testing.T) {
	const lineage = "00112233445566778899aabbccddeeff"
	dir := t.TempDir()
	for range 2 {
		s, err := OpenOrCreate(context.Background(), dir, "lab", "", Options{Lineage: lineage})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.State().Lineage; got != lineage {
			t.Errorf("lineage %s", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenOrCreate(context.Background(), t.TempDir(), "lab", "", Options{Lineage: "short"}); err == nil {
		t.Error("a lineage that is none was written")
	}
}

func TestSerialGrowsOnlyWithChanges(t *testing.T) {
	s := create(t, t.TempDir())
	put(t, s, "a")
	before := s.State().Serial
	put(t, s, "a")
	if err := s.Update(func(st *State) error { st.Serial = 99; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.State().Serial; got != before {
		t.Errorf("serial went from %d to %d without a change", before, got)
	}
	if err := s.Update(func(st *State) error { st.Study = "x"; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.State().Serial; got != before+1 {
		t.Errorf("serial %d after one change to %d", got, before)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "a")
	put(t, s, "b")
	before := s.State()
	cases := map[string]struct {
		change func(*State) error
		want   error
	}{
		"emptying": {func(st *State) error { st.Resources = nil; return nil }, ErrForgetting},
		"one less": {func(st *State) error { st.Drop(thing("b").Addr); return nil }, ErrForgetting},
		"one for another": {func(st *State) error {
			st.Drop(thing("b").Addr)
			st.Put(Resource{Addr: thing("c").Addr, Type: "thing", Status: OK, Attrs: json.RawMessage("{}")})
			return nil
		}, ErrForgetting},
		"lineage":  {func(st *State) error { st.Lineage = NewLineage(); return nil }, ErrLineage},
		"callback": {func(*State) error { return os.ErrInvalid }, os.ErrInvalid},
	}
	for name, c := range cases {
		if err := s.Update(c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := Read(dir); err != nil || got.Serial != before.Serial || len(got.Resources) != 2 {
		t.Errorf("a refused change was written: %+v, %v", got, err)
	}
	if err := s.Update(func(st *State) error { st.Put(Resource{}); return nil }); err == nil {
		t.Error("a state that could not be read again was written")
	}
	if err := s.Recorder().Gone(0, thing("a").Addr, thing("b").Addr); err != nil {
		t.Errorf("deleting the last resource: %v", err)
	}
	put(t, s, "a")
	if err := s.Empty(nil); err != nil || len(s.State().Resources) != 0 {
		t.Errorf("emptying on purpose: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(*State) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBackups(t *testing.T) {
	dir := t.TempDir()
	for i := range 13 {
		s := create(t, dir)
		put(t, s, string(rune('a'+i)))
		put(t, s, string(rune('A'+i)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := disk{}.list(filepath.Join(dir, "backups"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for serial := 7; serial <= 25; serial += 2 { // the last ten of 1, 3, 5 … 25
		want = append(want, fmt.Sprintf("state.%012d.json", serial))
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	b, err := os.ReadFile(filepath.Join(dir, "backups", names[9]))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := decode(b); err != nil || st.Serial != 25 || len(st.Resources) != 24 {
		t.Errorf("the newest backup is %+v, %v", st, err)
	}
}

func TestValueFollowsTheSchema(t *testing.T) {
	rec, err := NewResource(thing("a"), thing("a").Attrs, OK)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := rec.Value(thingSchema); err != nil || !v.RawEquals(thing("a").Attrs) {
		t.Errorf("%#v, %v", v, err)
	}
	grown := provider.Schema{Attributes: map[string]provider.Attribute{"size": {Type: cty.Number}, "colour": {Type: cty.String}}}
	want := cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(3), "colour": cty.NullVal(cty.String)})
	if v, err := rec.Value(grown); err != nil || !v.RawEquals(want) {
		t.Errorf("%#v, %v", v, err)
	}
	changed := provider.Schema{Attributes: map[string]provider.Attribute{"names": {Type: cty.Number}}}
	if _, err := rec.Value(changed); err == nil || !strings.Contains(err.Error(), "backend.a/domain: attribute names") {
		t.Errorf("%v", err)
	}
}

// What people read when the files are not as they should be.
func TestErrorTexts(t *testing.T) {
	whole := `{"version":1,"lvslab":"1.0","lineage":"00112233445566778899aabbccddeeff","serial":3,"lab":"lab","resources":[]}`
	cases := []struct {
		name  string
		files map[string]string
		want  error
	}{
		{"none", nil, ErrNone},
		{"missing", map[string]string{"backups/state.000000000001.json": whole}, ErrMissing},
		{"missing_journal", map[string]string{"journal.jsonl": "{}\n"}, ErrMissing},
		{"empty", map[string]string{"state.json": ""}, ErrUnreadable},
		{"cut", map[string]string{"state.json": whole[:40]}, ErrUnreadable},
		{"behind", map[string]string{"state.json": whole + "}"}, ErrUnreadable},
		{"lineage", map[string]string{"state.json": strings.Replace(whole, "0011", "zz", 1)}, ErrUnreadable},
		{"newer", map[string]string{"state.json": `{"version":7,"lvslab":"9.1","resources":"of another shape"}`}, ErrNewer},
		{"journal", map[string]string{"state.json": whole, "journal.jsonl": "nonsense\n"}, ErrJournal},
		{"journal_gap", map[string]string{"state.json": whole, "journal.jsonl": `{"seq":2,"op":"create"}` + "\n"}, ErrJournal},
	}
	var all strings.Builder
	for _, c := range cases {
		dir := filepath.Join(t.TempDir(), "lab")
		for name, text := range c.files {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(context.Background(), dir, Options{})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		d := diag.From(err)[0]
		all.WriteString(strings.ReplaceAll("== "+c.name+"\n"+d.Summary+"\n"+d.Detail+"\n=> "+d.Remedy+"\n", dir, "DIR"))
		if _, held, _ := Held(dir); held {
			t.Errorf("%s: the lock is still held", c.name)
		}
	}
	golden.Check(t, "errors.golden", all.String())
}

func TestRecover(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "deleting")
	put(t, s, "updating")
	put(t, s, "again")
	r := s.Recorder()
	for op, label := range map[plan.Op]string{plan.Create: "new", plan.Delete: "deleting", plan.Update: "updating"} {
		if _, err := r.Begin(op, thing(label)); err != nil {
			t.Fatal(err)
		}
	}
	created := thing("new-made") // state written, end lost
	if _, err := r.Begin(plan.Create, created); err != nil {
		t.Fatal(err)
	}
	if err := r.Made(0, created, created.Attrs, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(plan.Create, thing("again")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(Intent{Op: "loan", Subject: "experiment.e", Data: json.RawMessage(`{"baseline":1}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = create(t, dir)
	done, err := s.Recover()
	if err != nil || len(done) != 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	want := map[string]Status{"new": Tainted, "deleting": Tainted, "updating": OK, "new-made": OK, "again": Tainted}
	st := s.State()
	for label, status := range want {
		rec, found := st.Resource(thing(label).Addr)
		if !found || rec.Status != status {
			t.Errorf("%s: %+v, want %s", label, rec, status)
		}
		if v, err := rec.Value(thingSchema); err != nil || v.GetAttr("size").IsNull() {
			t.Errorf("%s cannot be looked for: %#v, %v", label, v, err)
		}
	}
	left := s.Pending()
	if len(left) != 1 || left[0].Op != "loan" || string(left[0].Data) != `{"baseline":1}` {
		t.Errorf("left: %+v", left)
	}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	if keys, err := ReadKeys(dir); err != nil || len(keys) != 0 {
		t.Errorf("%v, %v", keys, err)
	}
	if err := s.WriteKeys(map[string][]byte{"client": []byte("secret")}); err != nil {
		t.Fatal(err)
	}
	keys, err := ReadKeys(dir)
	if err != nil || string(keys["client"]) != "secret" {
		t.Errorf("%v, %v", keys, err)
	}
	if info, err := os.Stat(keysPath(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := s.WriteKeys(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(keysPath(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("keys are still there: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"lineage":"00112233445566778899aabbccddeeff","serial":1,"resources":[{"address":"a.b/c","type":"t","status":"ok","attributes":{}}]}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if err != nil {
			return
		}
		text, err := s.encode()
		if err != nil {
			t.Fatalf("read, but not writable: %v", err)
		}
		again, err := decode(text)
		if err != nil {
			t.Fatalf("written, but not readable: %v\n%s", err, text)
		}
		if second, _ := again.encode(); string(second) != string(text) {
			t.Fatalf("not stable:\n%s\n%s", text, second)
		}
	})
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"seq\":1,\"op\":\"create\"}\n{\"seq\":2,\"op\":\"loan\"}\n{\"seq\":1,\"end\":\"ok\"}\n{\"se"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		pending, size, next, err := parseJournal(b)
		if err != nil {
			return
		}
		if size > int64(len(b)) || size > 0 && b[size-1] != '\n' {
			t.Fatalf("size %d of %q", size, b)
		}
		if uint64(len(pending)) >= next {
			t.Fatalf("%d pending, next is %d", len(pending), next)
		}
		again, size2, next2, err := parseJournal(b[:size])
		if err != nil || size2 != size || next2 != next || len(again) != len(pending) {
			t.Fatalf("the whole lines alone read differently: %v", err)
		}
	})
}
