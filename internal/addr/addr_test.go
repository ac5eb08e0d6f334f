package addr

import (
	"slices"
	"strings"
	"testing"
)

func TestNounRoundTrip(t *testing.T) {
	for _, n := range []Noun{
		N(Director, "lb"), N(Backend, "ns").At(Index(0)), N(Backend, "ns").At(Index(12)),
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

func FuzzParse(f *testing.F) {
	for _, s := range []string{"backend.ns[0]", `tunnel.t["backend.ns[0]"]/tunnel`, "a.b/c/d", `x.y["\x00"]`} {
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
