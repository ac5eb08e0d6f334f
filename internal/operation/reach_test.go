package operation

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/schema"
)

// upLab is a lab whose state has these machines.
func upLab(t *testing.T, machines ...string) lab {
	t.Helper()
	l := lab{state: state.State{Lab: "demo"}}
	for _, m := range machines {
		n, err := addr.ParseNoun(m)
		if err != nil {
			t.Fatal(err)
		}
		l.state.Resources = append(l.state.Resources, state.Resource{Addr: addr.Resource{Noun: n, Part: schema.TypeDomain}, Type: schema.TypeDomain})
	}
	return l
}

func TestGroups(t *testing.T) {
	l := upLab(t, "backend.ns[1]", "backend.ns[0]", "backend.ns[10]", "director.lb", "client.c", `module.site["a,b"].backend.ns[0]`, `backend.dns["x:y"]`)
	everyone := `backend.dns["x:y"] backend.ns[0] backend.ns[1] backend.ns[10] client.c director.lb module.site["a,b"].backend.ns[0]`
	for words, want := range map[string]string{
		"director.lb":                  "director.lb",
		"backend.ns":                   "backend.ns[0] backend.ns[1] backend.ns[10]",
		"backend.ns[1]":                "backend.ns[1]",
		"backend.ns[1],client.c":       "backend.ns[1] client.c",
		"client,backend.ns,backend.ns": "client.c backend.ns[0] backend.ns[1] backend.ns[10]",
		`module.site["a,b"]`:           `module.site["a,b"].backend.ns[0]`,
		`module.site["a,b"],director`:  `module.site["a,b"].backend.ns[0] director.lb`,
		"all":                          everyone,
	} {
		nodes, one, err := l.group(words)
		if err != nil || strings.Join(nodes, " ") != want {
			t.Errorf("%s: %q, %v; want %q", words, nodes, err, want)
		}
		if one != (len(nodes) == 1 && nodes[0] == words) {
			t.Errorf("%s: one node: %v", words, one)
		}
	}
	for _, words := range []string{"", "backend.web", "backend.ns,", "backend.ns[2]", "rooter", "module.other"} {
		_, _, err := l.group(words)
		var f *diag.Failure
		if !errors.As(err, &f) || f.Diagnostic.Summary != "No such node" {
			t.Errorf("%q: %v", words, err)
		}
	}
	if _, _, err := upLab(t).group("all"); !errors.Is(err, errNotUp) {
		t.Errorf("a lab without machines: %v", err)
	}
}

func TestCutNode(t *testing.T) {
	for arg, want := range map[string][]string{
		"director.lb:/etc/hosts":      {"director.lb", "/etc/hosts"},
		"backend.ns[0]:":              {"backend.ns[0]", ""},
		`backend.ns["a:/\"]:b"]:x:y`:  {`backend.ns["a:/\"]:b"]`, "x:y"},
		"all:/tmp":                    {"all", "/tmp"},
		"./a:b":                       nil,
		"/srv/a:b":                    nil,
		"file.txt":                    nil,
		":x":                          nil,
		`backend.ns["never ends:/tmp`: nil,
	} {
		node, where, remote := cutNode(arg)
		got := []string{node, where}
		if !remote {
			got = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", arg, got, want)
		}
	}
}
