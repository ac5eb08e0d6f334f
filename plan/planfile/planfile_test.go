package planfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

func at(s string) addr.Resource {
	a, err := addr.ParseResource(s)
	if err != nil {
		panic(err)
	}
	return a
}

func sample() File {
	link := schema.Link{Node: "backend.ns[0]", Name: "lan", MTU: 1500, Addresses: []string{"198.18.0.30/24"}}
	old := link
	old.MTU, old.BootID = 9000, "b"
	want := provider.Resource{Addr: at("backend.ns[0]/link.lan"), Type: "link", Attrs: link.Value(), Within: at("backend.ns[0]/domain"),
		DependsOn: []addr.Resource{at("backend.ns[0]/domain")}, ReplacedBy: []addr.Resource{at("network.lan/network")},
		NotAwaited: []addr.Resource{at("backend.ns[0]/domain")},
		Range:      &diag.Range{Filename: "lab.hcl", Start: diag.Range{}.Start}}
	have := plan.Existing{Addr: want.Addr, Type: "link", Value: old.Value(), Half: link.Value(), DependsOn: want.DependsOn, Within: want.Within}
	gone := plan.Existing{Addr: at(`tunnel.t["backend.ns[0]"]/tunnel`), Type: "tunnel", Tainted: true, Value: schema.Tunnel{Name: "t"}.Value()}
	return File{
		Lvslab: "1.2", Made: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), Lab: "lab", Lineage: "00112233445566778899aabbccddeeff", Serial: 5, Topology: "abc",
		Plan: plan.Plan{
			Changes: []plan.Change{
				{Addr: want.Addr, Type: "link", Noun: "network card", Action: provider.Update, Reasons: []provider.Reason{{Attribute: "mtu", Text: "changed"}}, Want: &want, Have: &have},
				{Addr: gone.Addr, Type: "tunnel", Noun: "tunnel device", Action: provider.Delete, Have: &gone},
			},
			Warnings: diag.Diagnostics{diag.Warnf("summary", "remedy", "detail")},
		},
		Trials: json.RawMessage(`[{"run_id":"01-01-rr"}]`), Images: map[string]string{"debian-12": "sha256:1"}, Teardown: "never", Inputs: json.RawMessage(`{"a":1}`),
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.plan")
	want := sample()
	if err := Write(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	opts := []cmp.Option{cmp.Comparer(func(a, b addr.Resource) bool { return a == b }), cmp.Comparer(func(a, b cty.Value) bool { return a.RawEquals(b) })}
	if d := cmp.Diff(want, got, opts...); d != "" {
		t.Error(d)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left beside it: %v, %v", entries, err)
	}
	if !Is(path) {
		t.Error("is not taken for a plan")
	}
	hcl := filepath.Join(t.TempDir(), "lab.hcl")
	if err := os.WriteFile(hcl, []byte(`lab "x" {}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if Is(hcl) || Is(hcl+".none") {
		t.Error("a topology is taken for a plan")
	}
	if err := Write(filepath.Join(path, "below"), want); err == nil {
		t.Error("written below a file")
	}
}

func TestCheck(t *testing.T) {
	f := sample()
	fresh := sample()
	fresh.Serial = 0
	cases := []struct {
		name    string
		file    File
		version string
		lineage string
		serial  uint64
		want    string
	}{
		{"fits", f, "1.2", f.Lineage, 5, ""},
		{"fits a lab without state", fresh, "1.2", "", 0, ""},
		{"state moved", f, "1.2", f.Lineage, 7, "plan is out of date: state changed since: serial 7, plan was made at 5"},
		{"state went back", f, "1.2", f.Lineage, 3, "plan is out of date: state changed since: serial 3, plan was made at 5"},
		{"state gone", f, "1.2", "", 0, "plan is out of date: the state is gone; the plan was made at serial 5"},
		{"state has come", fresh, "1.2", f.Lineage, 1, "plan is out of date: the lab has a state by now, serial 1; the plan was made without one"},
		{"other life", f, "1.2", "ff", 5, "plan is for another lab: the plan's lineage is 00112233445566778899aabbccddeeff, the state's is ff"},
		{"other version", f, "1.3", f.Lineage, 5, "plan was made by another lvslab: version 1.2 made it, this is 1.3"},
	}
	for _, c := range cases {
		err := c.file.Check(c.version, c.lineage, c.serial)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: not refused", c.name)
			continue
		}
		d := diag.From(err)[0]
		if got := d.Summary + ": " + d.Detail; !strings.HasPrefix(got, c.want) || !strings.Contains(d.Remedy, "lvslab plan --out") {
			t.Errorf("%s: %q (%s)", c.name, got, d.Remedy)
		}
	}
	var stale *StaleError
	if err := f.Check("1.2", f.Lineage, 7); !errors.As(err, &stale) || stale.Now != 7 || stale.Planned != 5 {
		t.Errorf("%v", err)
	}
	if err := f.Check("1.3", f.Lineage, 5); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
	if err := f.Check("1.2", "ff", 5); !errors.Is(err, ErrOtherLab) {
		t.Errorf("%v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	whole, err := encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	cases := map[string]struct {
		text string
		want error
	}{
		"empty":         {"", ErrNoPlan},
		"cut":           {text[:len(text)/2], ErrNoPlan},
		"behind":        {text + "{}", ErrNoPlan},
		"state":         {`{"version":1}`, ErrNoPlan},
		"newer":         {`{"lvslab_plan":2,"lvslab":"9","changes":7}`, ErrVersion},
		"unknown field": {strings.Replace(text, `"lab":`, `"lob":`, 1), ErrNoPlan},
		"wrong action":  {strings.Replace(text, `"action":"update"`, `"action":"delete"`, 1), ErrNoPlan},
		"huge number":   {strings.Replace(text, `"mtu":1500`, `"mtu":1e99999999`, 1), ErrNoPlan},
		"tiny number":   {strings.Replace(text, `"mtu":1500`, `"mtu":1e-99999999`, 1), ErrNoPlan},
		"no action":     {strings.Replace(text, `"action":"update"`, `"action":""`, 1), ErrNoPlan},
	}
	for name, c := range cases {
		path := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); !errors.Is(err, c.want) || diag.From(err)[0].Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func FuzzDecode(f *testing.F) {
	whole, err := encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"lvslab_plan":1,"changes":[{"address":"a.b/c","type":"t","action":"create","want":{"attributes":{"value":null,"type":"string"}}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := decode(b)
		if err != nil {
			return
		}
		text, err := encode(file)
		if err != nil {
			t.Fatalf("read, but not writable: %v", err)
		}
		if _, err := decode(text); err != nil {
			t.Fatalf("written, but not readable: %v\n%s", err, text)
		}
	})
}
