package experiment

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// DeclaredID is the id of the only treatment of an experiment without factors.
const DeclaredID = "declared"

// maxTreatments bounds the product of all factors: beyond it a study is a
// slip of the pen, and the block would never end.
const maxTreatments = 10000

// Treatment is one combination of the factors' values.
type Treatment struct {
	ID      string            `json:"id"`      // scheduler=rr,one_packet=false
	Slug    string            `json:"slug"`    // rr-noops, unique in the experiment
	Factors map[string]string `json:"factors"` // factor → value as in ID
	Setting Setting           `json:"setting"`
	// StandsFor are the ids of treatments that are not run because they are this
	// one by the kernel's rules.
	StandsFor []string `json:"stands_for,omitempty"`
}

// Treatments expands the factors of an experiment: every combination, the last
// declared factor varying fastest, and after them the controls. All bad values are reported at once; with
// errors the list is nil.
func Treatments(t *lang.Topology, e lang.Experiment) ([]Treatment, diag.Diagnostics) {
	svc, ok := t.Service(e.Service)
	if !ok {
		return nil, diag.Diagnostics{diag.Errorf("The experiment has no service", "Name an existing service block in its argument service.",
			"%s refers to %s, which the topology does not have.", e.Noun, e.Service).For(e.Noun.String()).At(e.Range)}
	}
	if ds := fitness(svc, e); ds.HasErrors() {
		return nil, ds
	}
	if ds := checkFactors(e, svc); ds.HasErrors() {
		return nil, ds
	}
	combos := [][]cty.Value{nil}
	for _, f := range e.Factors {
		var next [][]cty.Value
		for _, c := range combos {
			for _, v := range f.Values {
				next = append(next, append(slices.Clone(c), v))
			}
		}
		combos = next
	}
	var out []Treatment
	var ds diag.Diagnostics
	for _, values := range combos {
		tr, err := combine(t, e, svc, values)
		if err != nil {
			ds = append(ds, diag.Errorf("Treatment cannot be carried out", "Change or leave out one of the values.",
				"%s: %v.", tr.ID, err).For(e.Noun.String()).At(e.Range))
			continue
		}
		out = append(out, tr)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	out = withControls(e, svc, collapsed(e, out))
	uniqueSlugs(out)
	return out, nil
}

// fitness checks what every treatment needs.
func fitness(svc lang.Service, e lang.Experiment) diag.Diagnostics {
	var ds diag.Diagnostics
	add := func(summary, remedy, format string, args ...any) {
		ds = append(ds, diag.Errorf(summary, remedy, format, args...).For(e.Noun.String()).At(e.Range))
	}
	if len(svc.RealServers) == 0 {
		add("Experiment on a service without real servers", "Add a real_server block to the service.",
			"%s has nobody to send a query to.", svc.Noun)
	}
	if len(svc.VIPs) == 0 {
		add("Experiment on a service without a VIP", "Give the service a vip.", "%s has no address that clients could ask.", svc.Noun)
	}
	if len(e.Clients) == 0 {
		add("Experiment without clients", "Set clients to a client block.", "%s has nobody who asks.", e.Noun)
	}
	if e.Iterations < 1 {
		add("Experiment without iterations", "Set iterations to 1 or more.", "iterations is %d.", e.Iterations)
	}
	if e.Load.Queries < 1 && !slices.ContainsFunc(e.Factors, func(f lang.Factor) bool { return f.Name == "queries" }) {
		add("Load without queries", "Set queries in the load block to 1 or more.", "queries is %d.", e.Load.Queries)
	}
	return ds
}

// checkFactors judges each value alone.
func checkFactors(e lang.Experiment, svc lang.Service) diag.Diagnostics {
	var ds diag.Diagnostics
	product, seen := 1, map[string]bool{}
	for _, f := range e.Factors {
		add := func(summary, remedy, format string, args ...any) {
			ds = append(ds, diag.Errorf(summary, remedy, format, args...).For(e.Noun.String()).At(f.Range))
		}
		known, ok := factors[f.Name]
		switch {
		case !ok:
			add("Unknown factor", "Use one of "+strings.Join(FactorNames(), ", ")+".", "An experiment cannot vary %q.", f.Name)
			continue
		case seen[f.Name]:
			add("Factor declared twice", "Put all values into one factor block.", "%q has two factor blocks.", f.Name)
			continue
		case len(f.Values) == 0:
			add("Factor without values", "Give it at least one value.", "The list of values of %q is empty.", f.Name)
			continue
		}
		seen[f.Name] = true
		if product *= len(f.Values); product > maxTreatments {
			add("Too many treatments", "Take values or factors away.", "The factors combine to more than %d treatments.", maxTreatments)
			return ds
		}
		texts := map[string]bool{}
		for i, v := range f.Values {
			text := known.text(v)
			if err := known.apply(new(Setting), v, scope{svc, e}); err != nil {
				add("Bad value of a factor", "Correct or remove the value.", "Value %d of factor %q, %s, %v.", i+1, f.Name, text, err)
			} else if texts[text] {
				add("Value of a factor given twice", "Remove one of them.", "Factor %q has the value %s more than once.", f.Name, text)
			}
			texts[text] = true
		}
	}
	return ds
}

// combine makes one treatment. Protocol is applied first: timeout depends on it.
func combine(t *lang.Topology, e lang.Experiment, svc lang.Service, values []cty.Value) (Treatment, error) {
	tr := Treatment{ID: DeclaredID, Slug: DeclaredID, Factors: map[string]string{}, Setting: declaredSetting(t, svc, e)}
	var ids, slugs []string
	for i, f := range e.Factors {
		text := factors[f.Name].text(values[i])
		tr.Factors[f.Name] = text
		ids = append(ids, f.Name+"="+text)
		slugs = append(slugs, factors[f.Name].slug(text))
	}
	if len(ids) > 0 {
		tr.ID, tr.Slug = strings.Join(ids, ","), strings.Join(slugs, "-")
	}
	for _, first := range []bool{true, false} {
		for i, f := range e.Factors {
			if (f.Name == "protocol") != first {
				continue
			}
			if err := factors[f.Name].apply(&tr.Setting, values[i], scope{svc, e}); err != nil {
				return tr, fmt.Errorf("%s %w", f.Name, err)
			}
		}
	}
	return tr, compatible(tr.Setting, svc, mostProcesses(t, e, tr.Setting))
}

// mostProcesses is the largest number of dnsperf processes that one client
// runs: one for each pair of its addresses and the VIPs in use.
func mostProcesses(t *lang.Topology, e lang.Experiment, s Setting) int {
	most := 1
	for _, n := range e.Clients[:s.Clients] {
		if m, ok := t.Machine(n); ok && len(m.NICs) > 0 {
			most = max(most, len(m.NICs[0].Addresses))
		}
	}
	return most * s.VIPs
}

// Sources is how many client addresses the director sees in a run.
func (s Setting) Sources(t *lang.Topology, e lang.Experiment) int {
	seen := map[netip.Addr]bool{}
	for _, n := range e.Clients[:min(s.Clients, len(e.Clients))] {
		m, ok := t.Machine(n)
		if !ok || len(m.NICs) == 0 {
			continue
		}
		for _, a := range m.NICs[0].Addresses {
			if as, hidden := s.Seen[a]; hidden {
				a = as
			}
			seen[a] = true
		}
	}
	return len(seen)
}

// compatible refuses combinations that the kernel would take without an error
// and that would then not be what they say.
func compatible(s Setting, svc lang.Service, processes int) error {
	if err := possible(s, processes); err != nil {
		return err
	}
	switch {
	case s.Load == "" && s.Rate != math.Trunc(s.Rate/float64(processes))*float64(processes):
		return fmt.Errorf("dnsperf is paced in whole queries a second, and a client runs %d of them: %v a second is no multiple of that", processes, s.Rate)
	case s.OnePacket && s.Protocol == "tcp":
		return fmt.Errorf("one_packet acts on UDP only")
	case s.OnePacket && svc.Forward == "masquerade":
		return fmt.Errorf("with masquerade and one_packet no answer finds its way back, because there is no entry to translate it by")
	}
	return nil
}

// uniqueSlugs gives treatments whose names became equal a number.
func uniqueSlugs(list []Treatment) {
	used := map[string]bool{}
	for i := range list {
		base := list[i].Slug
		if len(base) > 80 {
			base = base[:80]
		}
		slug := base
		for n := 2; used[slug]; n++ {
			slug = fmt.Sprintf("%s.%d", base, n)
		}
		used[slug] = true
		list[i].Slug = slug
	}
}
