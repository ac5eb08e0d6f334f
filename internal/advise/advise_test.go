package advise

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/topologies"
)

// base is a design without a fault; tests replace parts of it.
const base = `network "lan" {
  cidr = "198.18.0.0/24"
}

client "c" {
  count = 2
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "t" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director   = director.lb
  vips       = ["198.18.0.101", "198.18.0.102"]
  port       = 53
  scheduler  = "rr"
  one_packet = false
  real_server {
    backends = backend.ns
    tunnel   = tunnel.t
  }
}

experiment "x" {
  service    = service.dns
  clients    = client.c
  iterations = 20
  factor "scheduler" { values = ["rr", "lc"] }
  controls { aa = true }
  load "dnsperf" {
    queries = 1000
    sockets = 20
    rate    = 500
  }
}
`

func topology(t *testing.T, name, text string) *lang.Topology {
	t.Helper()
	fail := func(ds diag.Diagnostics) {
		t.Helper()
		if ds.HasErrors() {
			t.Fatal(ds.Err())
		}
	}
	config, ds := lang.Parse(lang.Source{Name: "page", Files: []lang.File{{Name: name, Bytes: []byte(text)}}})
	fail(ds)
	skeleton, ds := config.Skeleton(lang.Inputs{})
	fail(ds)
	addresses, ds := topo.Assign(skeleton, nil)
	fail(ds)
	out, ds := config.Resolve(skeleton, addresses)
	fail(ds)
	return out
}

// with replaces parts of the base: old, new, old, new.
func with(t *testing.T, parts ...string) string {
	t.Helper()
	text := base
	for i := 0; i < len(parts); i += 2 {
		if !strings.Contains(text, parts[i]) {
			t.Fatalf("%q is not in the base", parts[i])
		}
		text = strings.Replace(text, parts[i], parts[i+1], 1)
	}
	return text
}

const (
	two   = `values = ["rr", "lc"]`
	aa    = "controls { aa = true }"
	whole = "controls {\n    aa     = true\n    rotate = true\n  }"
)

// cases draw one advice each, of the rule that is named.
func cases(t *testing.T) map[string]string {
	oneVIP := []string{`vips       = ["198.18.0.101", "198.18.0.102"]`, `vip        = "198.18.0.101"`}
	oneClient := []string{"count = 2", "count = 1"}
	join := func(lists ...[]string) string { return with(t, slices.Concat(lists...)...) }
	return map[string]string{
		"one-port":      join(oneVIP, oneClient, []string{"sockets = 20", "sockets = 2", aa, whole, "iterations = 20", "iterations = 21"}),
		"active-udp":    with(t, two, `values = ["sed", "nq", "ovf", "rr"]`, aa, whole, "iterations = 20", "iterations = 21"),
		"one-vip":       join(oneVIP, []string{two, `values = ["dh", "lblc"]`, aa, whole, "iterations = 20", "iterations = 21"}),
		"one-client":    join(oneClient, []string{two, `values = ["sh", "mh"]`, aa, whole, "iterations = 20", "iterations = 21"}),
		"ops-least":     with(t, "one_packet = false", "one_packet = true", two, `values = ["rr", "wlc"]`),
		"fresh-packets": with(t, "one_packet = false", "one_packet = true", two, `values = ["rr", "wrr"]`, `load "dnsperf"`, `load "lvslab"`, "sockets = 20", `sockets = "fresh"`),
		"few-at-a-time": join(oneVIP, oneClient, []string{"one_packet = false", "protocol   = \"tcp\"", two, `values = ["sed", "nq", "rr"]`, `load "dnsperf"`, `load "lvslab"`,
			"sockets = 20", "sockets = \"fresh\"\n    window  = 1", aa, whole, "iterations = 20", "iterations = 21"}),
		"thresholds":     with(t, "tunnel   = tunnel.t", "tunnel   = tunnel.t\n    upper    = 10"),
		"one-persistent": join(oneClient, []string{"  real_server {", "  persistence { timeout = \"60s\" }\n  real_server {"}),
		"big-answers":    with(t, `values = ["192.0.2.1"]`, `values = [for i in range(40) : "192.0.2.${i}"]`),
		"conntrack":      with(t, "director \"lb\" {", "director \"lb\" {\n  sysctl = { \"net.ipv4.vs.conntrack\" = \"1\" }"),
		"paced-time":     base,
		"closed-loop":    with(t, "    rate    = 500\n", ""),
		"few-blocks":     with(t, "iterations = 20", "iterations = 5"),
		"no-controls":    with(t, "  controls { aa = true }\n", ""),
		"part-rotation":  with(t, "controls { aa = true }", "controls {\n    aa     = true\n    rotate = true\n  }"),
	}
}

func render(list []Advice) string {
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, "%s\n  %s\n", a.Line(), a.Diagnostic())
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	texts := map[string]string{}
	for rule, text := range cases(t) {
		found := Check(topology(t, "x.hcl", text))
		found = slices.DeleteFunc(found, func(a Advice) bool { return a.Rule == "paced-time" && rule != "paced-time" })
		if len(found) != 1 || found[0].Rule != rule {
			t.Errorf("%s drew\n%s", rule, render(found))
		}
		texts[rule] = render(found)
	}
	for _, r := range Rules() {
		if texts[r.ID] == "" {
			t.Errorf("rule %s has no case", r.ID)
		}
	}
	config, ok := topologies.Get("triac-2026")
	if !ok {
		t.Fatal("the built-in topology is gone")
	}
	paper := Check(topology(t, "triac-2026.hcl", string(config)))
	if len(paper) < 5 {
		t.Errorf("the paper's design draws %d pieces of advice only", len(paper))
	}
	texts["paper"] = render(paper)
	for name, got := range texts {
		golden.Check(t, name+".golden", got)
	}
}

// TestWhatIsRightDrawsNothing: each rule next to the design that mends it.
func TestWhatIsRightDrawsNothing(t *testing.T) {
	oneClient := []string{"count = 2", "count = 1"}
	rotating := []string{aa, whole, "iterations = 20", "iterations = 21"}
	for name, parts := range map[string][]string{
		"sed over tcp":             slices.Concat(rotating, []string{two, `values = ["sed", "nq"]`, "port       = 53", "port       = 53\n  protocol   = \"tcp\""}),
		"dh with two VIPs":         slices.Concat(rotating, []string{two, `values = ["dh", "lblcr"]`}),
		"sh with its port flag":    slices.Concat(rotating, oneClient, []string{two, `values = ["sh", "rr"]`, "one_packet = false", "one_packet = false\n  flags      = [\"sh-port\"]"}),
		"one port, one packet":     {"sockets = 20", "sockets = 1", "one_packet = false", "one_packet = true", two, `values = ["rr", "wrr"]`},
		"room for every port":      {"tunnel   = tunnel.t", "tunnel   = tunnel.t\n    upper    = 80"},
		"persistence, two clients": {"  real_server {", "  persistence { timeout = \"60s\" }\n  real_server {"},
		"big answers over tcp":     {`values = ["192.0.2.1"]`, `values = [for i in range(40) : "192.0.2.${i}"]`, "port       = 53", "port       = 53\n  protocol   = \"tcp\""},
		"big answers and a tcp service": {`values = ["192.0.2.1"]`, `values = [for i in range(40) : "192.0.2.${i}"]`, `experiment "x" {`,
			"service \"tcp\" {\n  director = director.lb\n  vip = \"198.18.0.101\"\n  port = 53\n  protocol = \"tcp\"\n" +
				"  real_server {\n    backends = backend.ns\n    tunnel = tunnel.t\n  }\n}\nexperiment \"x\" {"},
		"conntrack that lasts": {"director \"lb\" {", "director \"lb\" {\n  sysctl = { \"net.ipv4.vs.conntrack\" = \"1\", \"net.netfilter.nf_conntrack_udp_timeout\" = \"300\" }"},
		"one treatment":        {two, `values = ["rr"]`, "  controls { aa = true }\n", "", "iterations = 20", "iterations = 1"},
	} {
		for _, a := range Check(topology(t, "x.hcl", with(t, parts...))) {
			if a.Rule != "paced-time" {
				t.Errorf("%s drew %s", name, a.Line())
			}
		}
	}
}

// TestAdvicePointsAtTheSource: an advice without a place helps nobody.
func TestAdvicePointsAtTheSource(t *testing.T) {
	for rule, text := range cases(t) {
		for _, a := range Check(topology(t, "x.hcl", text)) {
			if a.Range.Filename != "x.hcl" || a.Range.Start.Line < 2 {
				t.Errorf("%s points at %s", rule, a.Range)
			}
			if a.Diagnostic().Severity != diag.Warning {
				t.Errorf("%s is more than a warning", rule)
			}
		}
	}
}

// TestDocsTellTheRules compares docs/advice.md with the code: a heading for each
// rule in the order of the code, with its title and its reason, and no other.
func TestDocsTellTheRules(t *testing.T) {
	b, err := os.ReadFile("../../docs/advice.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	sections := map[string]string{}
	for _, part := range strings.Split(string(b), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		id := strings.Trim(strings.SplitN(heading, ":", 2)[0], "` ")
		headings = append(headings, id)
		sections[id] = heading + "\n" + strings.Join(strings.Fields(text), " ")
	}
	var ids []string
	for _, r := range Rules() {
		ids = append(ids, r.ID)
		for _, want := range []string{r.Title, r.Why} {
			if !strings.Contains(sections[r.ID], want) {
				t.Errorf("section %s of docs/advice.md lacks %q", r.ID, want)
			}
		}
		if strings.HasSuffix(r.Title, ".") || !strings.HasSuffix(r.Why, ".") && !strings.HasSuffix(r.Why, ").") {
			t.Errorf("%s: a title has no full stop, a reason has one", r.ID)
		}
	}
	if d := cmp.Diff(ids, headings); d != "" {
		t.Errorf("rules and headings differ (-code +docs):\n%s", d)
	}
}

func TestDetectable(t *testing.T) {
	if got := Detectable(10, 5); got != "" {
		t.Errorf("five blocks of ten: %q", got)
	}
	if got := Detectable(1, 50); got != "" {
		t.Errorf("one treatment: %q", got)
	}
	if got := Detectable(10, 20); !strings.Contains(got, "20 blocks and 45 pairs") {
		t.Errorf("got %q", got)
	}
}
