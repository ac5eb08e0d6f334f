package addr

import (
	"slices"
	"strings"
	"testing"
)

func TestNounRoundTrip(t *testing.T) {
	for _, n := range []Noun{
		N(Director, "lb"), N(Backend, "ns").At(Index(0)), N(Backend, "ns").At(Index(12)),
		N(Backend, "ns").At(Index(1)).In(Module("").Child("site", NoKey)), N(ModuleCall, "site").At(Index(3)),
		N(Client, "c").In(Module("").Child("a", Name("x.y]/")).Child("b", Index(10))),
		N(Tunnel, "lb-ns").At(Name("backend.ns[0]")), N(Client, "c").At(Name(`a "quoted" key/with [all]`)),
	} {
		got, err := ParseNoun(n.String())
		if err != nil || got != n {
			t.Errorf("%s: got %v, %v", n, got, err)
		}
		r := Resource{Noun: n, Part: "link.lan"}
		back, err := ParseResource(r.String())
		if err != nil || back != r {
			t.Errorf("%s: got %v, %v", r, back, err)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"":               "want kind.label",
		"backend":        "want kind.label",
		"backend.":       "is not a label",
		"backend.ns[":    "no closing bracket",
		"backend.ns[-1]": "number or a quoted string",
		"backend.ns[a]":  "number or a quoted string",
		"backend.a b":    "is not a label",
		"backend.a[0]x":  "follows the instance key",
		"backend.a[01]":  "number or a quoted string",
		"module.":        "is not a label",
		"module.a.":      "a dot and a block",
		"module.a[0]b":   "a dot and a block",
		"module.a[":      "no closing bracket",
		"module.a.b":     "want kind.label",
		`module.a["x`:    "no closing bracket",
	} {
		if _, err := ParseNoun(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	for _, in := range []string{"director.lb", "director.lb/", "/domain"} {
		if _, err := ParseResource(in); err == nil {
			t.Errorf("%q was taken for a resource", in)
		}
	}
}

// TestOrder: instances are ordered by number, not by text.
func TestOrder(t *testing.T) {
	list := []Noun{N(Backend, "ns").At(Index(10)), N(Backend, "ns").At(Index(2)), N(Backend, "a"), N(Backend, "ns")}
	slices.SortFunc(list, Noun.Compare)
	var got []string
	for _, n := range list {
		got = append(got, n.String())
	}
	if want := []string{"backend.a", "backend.ns", "backend.ns[2]", "backend.ns[10]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestModules: what is inside what, and the order of paths.
func TestModules(t *testing.T) {
	noun := func(s string) Noun {
		n, err := ParseNoun(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"module.a", "module.a.backend.ns[0]", true}, {"module.a", "module.a[1].backend.ns", true}, {"module.a[0]", "module.a[1].backend.ns", false},
		{"module.a[1]", "module.a[1].module.b.backend.ns", true}, {"module.a", "module.ab.backend.ns", false}, {"module.a", "backend.a", false},
		{"module.a.module.b", "module.a.module.b[2].client.c", true}, {"module.a.module.b", "module.a.client.c", false},
		{"module.a.backend.ns", "module.a.backend.ns[0]", true}, {"backend.ns", "module.a.backend.ns", false}, {"module.a", "module.a", true},
		{"module.a", "module.a[0]", true}, {"module.b", "module.a.module.b.client.c", false},
	} {
		if got := noun(c.a).Covers(noun(c.b)); got != c.want {
			t.Errorf("%s covers %s: %v", c.a, c.b, got)
		}
	}
	want := []string{"client.z", "module.a.backend.b", "module.a.client.a", "module.a.module.b.client.a", "module.a[2].client.a", "module.a[10].client.a", `module.a["x"].client.a`, "module.b.client.a"}
	var list []Noun
	for _, s := range want {
		list = append(list, noun(s))
	}
	slices.Reverse(list)
	slices.SortFunc(list, Noun.Compare)
	for i, n := range list {
		if n.String() != want[i] {
			t.Errorf("%d: %s, want %s", i, n, want[i])
		}
	}
	if got := noun("module.a[0].module.b.experiment.x").Name(); got != "module.a[0].module.b.x" {
		t.Errorf("name %s", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"backend.ns[0]", `module.a["x"].module.b[1].backend.ns[0]/domain`, "module.a", `tunnel.t["backend.ns[0]"]/tunnel`, "a.b/c/d", `x.y["\x00"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseNoun(s); err == nil {
			if again, err := ParseNoun(n.String()); err != nil || again != n {
				t.Errorf("%q: %v became %v, %v", s, n, again, err)
			}
		}
		if r, err := ParseResource(s); err == nil {
			if again, err := ParseResource(r.String()); err != nil || again != r {
				t.Errorf("%q: %v became %v, %v", s, r, again, err)
			}
		}
	})
}
