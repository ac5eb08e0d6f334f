package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/diff"
	"github.com/lvslab/lvslab/provider"
)

// showPlan emits the plan: addresses, changes, trials.
func (a *applying) showPlan() error {
	raw, err := a.planJSON()
	if err != nil {
		return err
	}
	t := a.changes.Totals()
	a.warn(a.changes.Warnings)
	a.Events.Emit(PlanEvent{Lab: a.study.topology.Lab.Name, Text: a.planText(), Plan: raw,
		Changes: t.Create + t.Update + t.Replace + t.Delete, Trials: len(a.todo)})
	return nil
}

// planText is the plan for people. A lab that is made from nothing is shown as
// its machines with their addresses; whatever changes something that exists is
// shown in full, attribute by attribute.
func (a *applying) planText() string {
	var b strings.Builder
	t := a.study.topology
	fmt.Fprintf(&b, "lab %s", t.Lab.Name)
	if t.Lab.Description != "" {
		fmt.Fprintf(&b, ": %s", t.Lab.Description)
	}
	b.WriteString("\n")
	totals := a.changes.Totals()
	switch {
	case a.changes.Empty():
	case totals.Update+totals.Replace+totals.Delete+totals.NoOp == 0:
		b.WriteString("\n" + a.inventory())
	default:
		b.WriteString("\n")
		for _, c := range a.changes.Changes {
			for _, l := range diff.Lines(c) {
				b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
			}
			if c.Action != provider.NoOp {
				b.WriteString("\n")
			}
		}
	}
	b.WriteString("\n" + diff.Summary(totals))
	if len(a.todo) > 0 {
		fmt.Fprintf(&b, "\nTrials: %d runs.", len(a.todo))
		for _, line := range a.list.describe(t) {
			b.WriteString("\n  " + line)
		}
	} else if a.result != "" {
		fmt.Fprintf(&b, "\nTrials: none, the study is complete in %s.", shownPath(a.result))
	}
	return b.String()
}

// inventory lists what is to be created, one line a machine.
func (a *applying) inventory() string {
	var b strings.Builder
	t := a.study.topology
	line := func(noun addr.Noun, format string, args ...any) {
		fmt.Fprintf(&b, "  + %-22s %s\n", noun, fmt.Sprintf(format, args...))
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
		line(m.Noun, "%s, %d MiB", strings.Join(addrs, ", "), m.Memory>>20)
	}
	for _, tn := range t.Tunnels {
		line(tn.Noun, "%s %s → %s", tn.Type, tn.Remote, tn.Local)
	}
	for _, z := range t.Zones {
		line(z.Noun, "%s, %d records", z.Name, len(z.Records))
	}
	for _, s := range t.Services {
		line(s.Noun, "%s", serviceLine(s))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func serviceLine(s lang.Service) string {
	var vips, reals []string
	for _, v := range s.VIPs {
		vips = append(vips, v.String())
	}
	for _, r := range s.RealServers {
		name := strings.TrimPrefix(r.Backend.String(), "backend.")
		if r.Weight != 1 {
			name += fmt.Sprintf(" (weight %d)", r.Weight)
		}
		reals = append(reals, name)
	}
	ops := ""
	if s.OnePacket {
		ops = ", one packet"
	}
	return fmt.Sprintf("%s %s port %d → %s by %s, %s%s", s.Protocol, strings.Join(vips, " "), s.Port, strings.Join(reals, ", "), s.Forward, s.Scheduler, ops)
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
	addresses := map[string]string{}
	for slot, ip := range a.study.addresses {
		addresses[slot] = ip.String()
	}
	return json.MarshalIndent(struct {
		Version   int               `json:"version"`
		Lab       string            `json:"lab"`
		Addresses map[string]string `json:"addresses"`
		Changes   []change          `json:"changes"`
		Pending   int               `json:"pending"`
		Study     json.RawMessage   `json:"study"`
	}{1, a.study.topology.Lab.Name, addresses, changes, len(a.todo), trials}, "", "  ")
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
	return ExitDone, a.asPlanned()
}

// Plan shows what apply would do and changes nothing.
func Plan(ctx context.Context, s *Settings, path string, o PlanOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{Keep: o.Keep, Fresh: o.Fresh, Results: o.Results, Target: o.Target, Replace: o.Replace})
	if err != nil {
		return ExitError, err
	}
	if exit, err := a.showOnly(ctx); err != nil {
		return exit, err
	}
	if o.Out != "" {
		if err := a.save(o.Out, path); err != nil {
			return ExitError, err
		}
	}
	if o.DetailedExitCode && (!a.changes.Empty() || len(a.todo) > 0) {
		return ExitChanges, nil
	}
	return ExitDone, nil
}
