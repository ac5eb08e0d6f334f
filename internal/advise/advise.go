// Package advise looks at a topology before anything runs and says which parts
// of its design cannot show what they seem to ask for: schedulers that see
// nothing of UDP, one source port, too few blocks. It is pure. Each rule has an
// id, a reason and a fix, all of which docs/advice.md lists.
package advise

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
)

// Rule is one thing that is looked for.
type Rule struct {
	ID    string // short, stable: one-port
	Title string // what is wrong, without a full stop
	Why   string // the reason, whole sentences

	find func(*study) []Advice
}

// Advice is what a rule found at one place.
type Advice struct {
	Rule    string `json:"rule"`
	Address string `json:"address"` // of the experiment or service
	Text    string `json:"text"`    // what was found, in a line
	Fix     string `json:"fix"`
	// Range is where it stands; JSON has it in its own form.
	Range diag.Range `json:"-"`
}

// rules are in the order in which their advice is best read.
var rules = []Rule{onePort, activeOnUDP, oneVIP, oneClient, onePacketLeast, freshPackets, fewAtATime, thresholds,
	persistentClient, bigAnswers, conntrack, pacedTime, closedLoop, fewBlocks, noControls, partRotation}

// Rules returns all rules.
func Rules() []Rule { return slices.Clone(rules) }

// Explain returns a rule by its id.
func Explain(id string) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// Check applies all rules to all experiments, in declared order. An experiment
// whose treatments cannot be expanded has errors of its own and gets none.
// One-packet scheduling with masquerade, which cannot work at all, is such an
// error and no advice.
func Check(t *lang.Topology) []Advice {
	var out []Advice
	for _, e := range t.Experiments {
		svc, ok := t.Service(e.Service)
		if !ok {
			continue
		}
		s := &study{topology: t, exp: e, service: svc}
		list, ds := experiment.Treatments(t, e)
		if !ds.HasErrors() {
			s.addTreatments(list)
		}
		for _, r := range rules {
			if len(s.treatments) > 0 {
				for _, a := range r.find(s) {
					a.Rule, a.Address = r.ID, e.Noun.String()
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// Diagnostic is the advice as a message of its own, with reason and fix.
func (a Advice) Diagnostic() diag.Diagnostic {
	r, _ := Explain(a.Rule)
	return diag.Warnf(r.Title, a.Fix, "%s Here: %s.", r.Why, a.Text).For(a.Address).At(a.Range)
}

// Line is the advice in one line: rule, place, what and fix.
func (a Advice) Line() string {
	return fmt.Sprintf("%-14s line %d: %s → %s", a.Rule, a.Range.Start.Line, a.Text, a.Fix)
}

// study is one experiment as the rules see it.
type study struct {
	topology   *lang.Topology
	exp        lang.Experiment
	service    lang.Service
	treatments []treatment
}

// treatment is a treatment with what follows from its setting.
type treatment struct {
	experiment.Treatment
	addresses int // source addresses of its clients together
	sources   int // as the director sees them: a group behind NAT is one
	ports     int // source ports that open an entry: one for each address, socket and VIP
	usable    int // real servers with a weight above 0
}

func (s *study) addTreatments(list []experiment.Treatment) {
	for _, t := range list {
		if t.Control() {
			continue
		}
		one := treatment{Treatment: t}
		for _, n := range s.exp.Clients[:t.Setting.Clients] {
			one.addresses += addressesOf(s.topology, n)
		}
		one.sources = t.Setting.Sources(s.topology, s.exp)
		one.ports = t.Setting.Queries * t.Setting.Clients
		if !t.Setting.Fresh {
			one.ports = min(one.ports, one.addresses*t.Setting.Sockets*t.Setting.VIPs)
		}
		for _, w := range t.Setting.Weights {
			if w > 0 {
				one.usable++
			}
		}
		s.treatments = append(s.treatments, one)
	}
}

func addressesOf(t *lang.Topology, client addr.Noun) int {
	m, ok := t.Machine(client)
	if !ok || len(m.NICs) == 0 {
		return 1
	}
	return max(1, len(m.NICs[0].Addresses))
}

// which returns the treatments that a condition holds for.
func (s *study) which(holds func(treatment) bool) []treatment {
	var out []treatment
	for _, t := range s.treatments {
		if holds(t) {
			out = append(out, t)
		}
	}
	return out
}

// where is a rule about the treatments that a condition holds for, when there are
// any.
func where(holds func(treatment) bool, say func(*study, []treatment) Advice) func(*study) []Advice {
	return func(s *study) []Advice {
		list := s.which(holds)
		if len(list) == 0 {
			return nil
		}
		return []Advice{say(s, list)}
	}
}

// schedulersOf names the schedulers of treatments, each once: "sed and nq".
func schedulersOf(list []treatment) string {
	var names []string
	for _, t := range list {
		if !slices.Contains(names, t.Setting.Scheduler) {
			names = append(names, t.Setting.Scheduler)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// verb picks the form that goes with the number of schedulers.
func verb(list []treatment, one, many string) string {
	if strings.Contains(schedulersOf(list), " and ") {
		return many
	}
	return one
}

// at is where something stands that is a factor, or else an argument of the
// load or the service.
func (s *study) at(factor string) diag.Range {
	for _, f := range s.exp.Factors {
		if f.Name == factor {
			return f.Range
		}
	}
	if r, ok := s.topology.Places[s.exp.Noun.String()+"/load[0]."+factor]; ok {
		return r
	}
	return s.topology.Place(s.service.Noun, factor, s.exp.Range)
}

// varies reports whether the experiment has that factor.
func (s *study) varies(factor string) bool {
	return slices.ContainsFunc(s.exp.Factors, func(f lang.Factor) bool { return f.Name == factor })
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "s") {
		return fmt.Sprintf("%d %ses", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
