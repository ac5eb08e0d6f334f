package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
)

// sourcePorts are the ports that were planned: experiment → client address → in
// order of use.
type sourcePorts map[string]map[string][]uint16

// own is what lvslab's generator left of a run: its record, and generator.json as
// it stands there.
type own struct {
	record []load.Asked
	stated load.Own
	// Missing: a process left no record, so what it sent is not known.
	Missing bool
}

func readOwn(data []byte, file func(string) ([]byte, error)) (*own, error) {
	o := &own{}
	var err error
	if o.record, err = load.ReadRecord(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	text, err := file(artifact.GeneratorSummaryFile)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &o.stated); err != nil {
		return nil, fmt.Errorf("%s: %w", artifact.GeneratorSummaryFile, err)
	}
	var more struct {
		Processes []struct {
			Lost bool `json:"lost"`
		} `json:"processes"`
	}
	if err := json.Unmarshal(text, &more); err != nil {
		return nil, fmt.Errorf("%s: %w", artifact.GeneratorSummaryFile, err)
	}
	for _, p := range more.Processes {
		o.Missing = o.Missing || p.Lost
	}
	return o, nil
}

func (o *own) started() int {
	n := 0
	for _, a := range o.record {
		if !a.Started.IsZero() {
			n++
		}
	}
	return n
}

// generated examines the record of a run: the ports are those that were planned,
// the summary follows from record and queries.csv, and the flags from the summary.
func generated(c *Check, r artifact.Run, t trial, data *raw, ports map[string][]uint16) {
	path := artifact.RawDir + "/" + r.RunID + "/"
	if (data.own != nil) != (t.Treatment.Setting.Load != "") {
		c.fail(path, "", "the generator's files are not those of the planned load")
		return
	}
	if data.own == nil {
		return
	}
	c.Compared += len(data.own.record)
	data.own.planned(c, path, t.Treatment.Setting, ports)
	follows := load.Judge(data.own.record, data.queries)
	stated := data.own.stated
	stated.Witness.First, follows.Witness.First = "", "" // words
	a, _ := json.Marshal(stated)
	b, _ := json.Marshal(follows)
	if !bytes.Equal(a, b) {
		c.fail(path+artifact.GeneratorSummaryFile, "", "says %s, from %s and %s follows %s", a, artifact.GeneratorFile, artifact.QueriesFile, b)
	}
	flagged := func(flag string, want bool) {
		if slices.Contains(r.OutcomeFlags, flag) != want {
			c.fail(artifact.RunsFile, r.RunID, "outcome_flags are %q, but %s is %v", r.OutcomeFlags, flag, want)
		}
	}
	flagged("not_taken", follows.Witness.NotTaken > 0)
	flagged("deadlines_missed", follows.Timing.Missed > 0 && t.Treatment.Setting.Mode == "open")
	if follows.Witness.Contradicts() {
		flagged("counts_contradict", true)
	}
}

// planned compares the source ports with those of plan.json: number k·V+v is the
// k-th port of the v-th of V VIPs.
func (o *own) planned(c *Check, path string, s setting, ports map[string][]uint16) {
	place := map[string]map[uint16]int{}
	for client, list := range ports {
		place[client] = map[uint16]int{}
		for i, p := range list {
			place[client][p] = i
		}
	}
	for _, a := range o.record {
		want := a.N - 1
		if s.Sockets > 0 {
			want %= s.Sockets
		}
		i, known := place[a.Client.String()][a.Port]
		if !known || i/max(1, s.VIPs) != want {
			c.fail(path+artifact.GeneratorFile, fmt.Sprintf("query %d of %s", a.N, a.Client), "port %d is not the one that was planned", a.Port)
			return // one says enough
		}
	}
}
