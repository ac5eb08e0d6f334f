package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

// showPlan emits the plan: addresses, changes, trials.
func (a *applying) showPlan() error {
	raw, err := a.planJSON()
	if err != nil {
		return err
	}
	t := a.changes.Totals()
	a.warn(a.changes.Warnings)
	if len(a.opts.Target) > 0 {
		a.warn(diag.Diagnostics{diag.Warnf("Only a part of the lab", "Plan and apply without --target afterwards.",
			"--target leaves out what the named blocks do not need, and all experiments and checks.")})
	}
	a.warnRenewals()
	a.Events.Emit(PlanEvent{Lab: a.study.topology.Lab.Name, Text: a.study.redact(a.planText()), Plan: raw,
		Changes: t.Create + t.Update + t.Replace + t.Delete, Trials: len(a.todo)})
	if len(a.todo) > 0 {
		a.advise(a.study.topology)
	}
	return nil
}

// planText is the plan for people. A lab that is made from nothing is shown as
// its machines with their addresses; whatever changes something that exists is
// shown in full, attribute by attribute. A plan without anything to do is one
// line, and none in an apply, whose last line says the same.
func (a *applying) planText() string {
	var b strings.Builder
	t := a.study.topology
	if a.idle() {
		if a.store != nil {
			return ""
		}
		return a.idleText()
	}
	fmt.Fprintf(&b, "lab %s", t.Lab.Name)
	if t.Lab.Description != "" {
		fmt.Fprintf(&b, ": %s", t.Lab.Description)
	}
	b.WriteString("\n")
	if moves := a.moves(); len(moves) > 0 {
		b.WriteString("\n" + movesText(moves))
	}
	totals := a.beside.Totals()
	switch {
	case a.beside.Empty():
		b.WriteString("\n")
	case totals.Update+totals.Replace+totals.Delete+totals.NoOp == 0:
		b.WriteString("\n" + a.inventory() + "\n")
	default:
		b.WriteString("\n")
		for _, c := range a.beside.Changes {
			for _, l := range diff.Lines(c) {
				b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
			}
			if c.Action != provider.NoOp {
				b.WriteString("\n")
			}
		}
	}
	b.WriteString(diff.Summary(totals) + a.lentText())
	if line := a.trialsLine(); line != "" {
		b.WriteString("\n" + line)
	}
	if len(a.todo) > 0 {
		for _, line := range a.ofShare().describe(t) {
			b.WriteString("\n  " + line)
		}
		for _, e := range t.Experiments {
			if line := a.kernelsText(e); line != "" && len(trialsOf(a.todo, e)) > 0 {
				b.WriteString("\n  " + line)
			}
		}
	}
	if d := a.demand(); d != nil {
		b.WriteString("\n\n" + d.text())
	}
	return b.String()
}

// idle reports whether the plan has nothing to do.
func (a *applying) idle() bool {
	return a.changes.Empty() && len(a.todo) == 0 && !a.unsealed() && (len(a.wanted) == 0 || len(a.moves()) == 0)
}

func (a *applying) idleText() string {
	if a.result != "" {
		return "Nothing to do: " + a.completeText() + "\nUse --fresh to repeat it, or --keep to bring the lab up."
	}
	return "Nothing to do: what exists is what the topology asks for."
}

// widestName is the longest address that others are aligned to.
const widestName = 48

// inventory lists what is to be created, one line a block.
func (a *applying) inventory() string {
	var b strings.Builder
	t := a.study.topology
	created := map[addr.Noun]bool{}
	for _, c := range a.changes.Changes {
		created[c.Addr.Noun] = true
		if c.Type == schema.TypeDNS {
			if m, ok := t.Machine(c.Addr.Noun); ok {
				for _, z := range m.Serves {
					created[z] = true
				}
			}
		}
	}
	var names, texts []string
	width := 22
	line := func(noun addr.Noun, format string, args ...any) {
		if created[noun] {
			names, texts = append(names, noun.String()), append(texts, fmt.Sprintf(format, args...))
			if w := len(noun.String()); w <= widestName {
				width = max(width, w)
			}
		}
	}
	for _, n := range t.Networks {
		line(n.Noun, "%s", n.CIDR)
	}
	for _, m := range t.Machines {
		var addrs []string
		for _, nic := range m.NICs {
			for i, ip := range nic.Addresses {
				if i < 2 {
					addrs = append(addrs, ip.String())
				} else if i == 2 {
					addrs = append(addrs, fmt.Sprintf("… (%d)", len(nic.Addresses)))
				}
			}
		}
		line(m.Noun, "%s, %d MiB%s", strings.Join(addrs, ", "), m.Memory>>20, a.kernelText(m))
	}
	for _, tn := range t.Tunnels {
		line(tn.Noun, "%s %s → %s", tn.Type, tn.Remote, tn.Local)
	}
	for _, z := range t.Zones {
		line(z.Noun, "%s, %s", z.Name, count(len(z.Records), "record"))
	}
	for _, s := range t.Services {
		line(s.Noun, "%s", serviceLine(s))
	}
	for i, n := range names {
		fmt.Fprintf(&b, "  + %-*s %s\n", width, n, texts[i])
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func serviceLine(s lang.Service) string {
	var vips, reals []string
	for _, v := range s.VIPs {
		vips = append(vips, v.String())
	}
	for _, r := range s.RealServers {
		name := r.Backend.Name() + r.Backend.Key.String()
		if r.Backend.Module == s.Noun.Module {
			name = r.Backend.Label + r.Backend.Key.String()
		}
		if r.Weight != 1 {
			name += fmt.Sprintf(" (weight %d)", r.Weight)
		}
		reals = append(reals, name)
	}
	ops := ""
	if s.OnePacket {
		ops = ", one packet"
	}
	mark := ""
	if s.FWMark != 0 {
		mark = fmt.Sprintf(" by mark %d", s.FWMark)
	}
	return fmt.Sprintf("%s %s port %d%s → %s by %s, %s%s", s.Protocol, strings.Join(vips, " "), s.Port, mark, strings.Join(reals, ", "), s.Forward, s.Scheduler, ops)
}

// planJSON is the plan as the artifact keeps it.
func (a *applying) planJSON() (json.RawMessage, error) {
	type change struct {
		Address string            `json:"address"`
		Type    string            `json:"type"`
		Action  provider.Action   `json:"action"`
		Reasons []provider.Reason `json:"reasons,omitempty"`
	}
	var changes []change
	for _, c := range a.changes.Changes {
		changes = append(changes, change{c.Addr.String(), c.Type, c.Action, c.Reasons})
	}
	trials, err := a.list.json()
	if err != nil {
		return nil, err
	}
	planned, err := a.planned()
	if err != nil {
		return nil, err
	}
	ports, err := a.sourcePorts()
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for slot, ip := range a.study.addresses {
		addresses[slot] = ip.String()
	}
	return json.MarshalIndent(struct {
		Version   int               `json:"version"`
		Lab       string            `json:"lab"`
		Addresses map[string]string `json:"addresses"`
		Moved     []topo.Rename     `json:"moved,omitempty"`
		Changes   []change          `json:"changes"`
		Totals    plan.Totals       `json:"totals"`
		// Lent are machines whose replacement undoes what a run of a study had booted.
		Lent    []lentMachine   `json:"booted_for_runs,omitempty"`
		Pending int             `json:"pending"`
		Study   json.RawMessage `json:"study"`
		Needs   *demand         `json:"needs,omitempty"`
		// Planned are the decisions that the model of IPVS is certain of.
		Planned map[string]map[string]int `json:"planned_decisions,omitempty"`
		// Ports are the source ports of lvslab's own generator, by experiment and
		// client address, in order of use.
		Ports map[string]map[string][]uint16 `json:"source_ports,omitempty"`
	}{1, a.study.topology.Lab.Name, addresses, a.moves(), changes, a.changes.Totals(), a.lent, len(a.todo), trials, a.demand(), planned, ports}, "", "  ")
}

// showOnly makes the plan and shows it, without lock and effect.
func (a *applying) showOnly(ctx context.Context) (Exit, error) {
	defer func() { a.host.close(); a.host = nil }()
	if err := a.preview(ctx); err != nil {
		return ExitError, err
	}
	if err := a.showPlan(); err != nil {
		return ExitError, err
	}
	for _, d := range diag.From(a.short(ctx)) { // apply would refuse
		d.Severity = diag.Warning
		a.warn(diag.Diagnostics{d})
	}
	return ExitDone, a.asPlanned()
}

// Plan shows what apply would do and changes nothing.
func Plan(ctx context.Context, s *Settings, path string, o PlanOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{Choices: o.Choices})
	if err != nil {
		return ExitError, err
	}
	if o.RefreshOnly {
		exit, differs, err := a.showDrift(ctx)
		if err == nil && differs && o.DetailedExitCode {
			exit = ExitChanges
		}
		return exit, err
	}
	if exit, err := a.showOnly(ctx); err != nil {
		return exit, err
	}
	if o.Out != "" {
		if err := a.save(o.Out, path); err != nil {
			return ExitError, err
		}
	}
	if o.DetailedExitCode && !a.idle() {
		return ExitChanges, nil
	}
	return ExitDone, nil
}
