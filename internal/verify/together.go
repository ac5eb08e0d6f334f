package verify

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
)

// starts is starts.json: the first packet of each client on one clock.
type starts struct {
	At      string  `json:"at"`
	WithinS float64 `json:"within_s"`
	First   []struct {
		Client string     `json:"client"`
		Source netip.Addr `json:"source"`
		Time   time.Time  `json:"time"`
	} `json:"first"`
}

// together computes again how far apart the clients of a run began, and holds the bound
// of the plan against the run's flags.
func together(c *Check, r artifact.Run, t trial, data *raw) {
	s := t.Treatment.Setting
	if s.Clients < 2 || s.StartWithin == 0 { // or planned before it was measured
		runRow(c, r).real("start_spread_s", r.StartSpreadS, nil)
		return
	}
	file := artifact.RawDir + "/" + r.RunID + "/" + artifact.StartsFile
	if data.starts == nil {
		runRow(c, r).real("start_spread_s", r.StartSpreadS, nil)
		if !slices.Contains(r.OutcomeFlags, "cut_short") { // a session of an older version may have made it
			if note := "how far apart clients began was not kept of all runs"; !slices.Contains(c.Notes, note) {
				c.Notes = append(c.Notes, note)
			}
		}
		return
	}
	if want := s.StartWithin.Seconds(); data.starts.WithinS != want {
		c.fail(file, "", "within_s is %v, planned was %v", data.starts.WithinS, want)
	}
	var spread *float64
	seen := map[string]bool{}
	var first, last time.Time
	for _, f := range data.starts.First {
		seen[f.Client] = true
		if first.IsZero() || f.Time.Before(first) {
			first = f.Time
		}
		if f.Time.After(last) {
			last = f.Time
		}
	}
	if len(seen) >= s.Clients {
		d := last.Sub(first).Seconds()
		spread = &d
	}
	runRow(c, r).real("start_spread_s", r.StartSpreadS, spread)
	for flag, want := range map[string]bool{
		"clients_apart": spread != nil && *spread > s.StartWithin.Seconds(), "start_unknown": spread == nil,
	} {
		if has := slices.Contains(r.OutcomeFlags, flag); has != want {
			c.fail(artifact.RunsFile, r.RunID, "outcome_flags %q, but starts.json says %s: %v", r.OutcomeFlags, flag, want)
		}
	}
}

// shared computes clients.csv again: each query is one client's, each row follows from
// its queries and from starts.json, and together they are the run's row.
func shared(c *Check, r artifact.Run, t trial, data *raw) {
	if data.rows == nil { // results before it was kept, and runs of one client
		return
	}
	first := starts{}
	if data.starts != nil {
		first = *data.starts
	}
	file := artifact.RawDir + "/" + r.RunID + "/" + artifact.ClientsFile
	s := t.Treatment.Setting
	if len(data.rows) != s.Clients {
		c.fail(file, "", "has %d rows, the run %d clients", len(data.rows), s.Clients)
	}
	for i, client := range data.clients {
		for _, f := range first.First {
			if f.Client != client.Name {
				continue
			}
			after := f.Time.Sub(first.First[0].Time).Seconds()
			data.clients[i].StartedS = &after
			if !slices.ContainsFunc(client.Addresses, func(a netip.Addr) bool { return a == f.Source || s.Seen[a] == f.Source }) {
				c.fail(file, client.Name, "has not the address %s that its first packet came from", f.Source)
			}
		}
	}
	sent, ok, ports := 0, 0, 0
	for i, row := range load.PerClient(data.queries, data.clients, s.Within) {
		c.Compared++
		if column, want := row.Differs(data.rows[i]); column != "" {
			c.fail(file, row.Name, "%s is not %q, which the raw data gives", column, want)
		}
		sent, ok, ports = sent+row.Sent, ok+row.AnswersOK, ports+row.SourcePorts
	}
	if sent != r.QueriesSent || ok != r.AnswersOK || ports != r.SourcePorts {
		c.fail(file, "", "adds up to %d queries, %d ok and %d ports, the run has %d, %d and %d", sent, ok, ports, r.QueriesSent, r.AnswersOK, r.SourcePorts)
	}
}
