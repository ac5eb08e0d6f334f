package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// asPlanned holds the kernel's decisions against those that the model of IPVS
// planned before the first run. Where it is certain the comparison is of whole
// numbers, without tolerance. A run in which IPVS did not get every query that
// was planned has other events than the model and is left out. Where the packets
// that came explain what the kernel did, it is the plan that was wrong.
func asPlanned(s *study) []Verdict {
	var compared, differ, load []run
	var text, loadText string
	for _, r := range s.valid {
		if !r.planned() || r.KernelDiffers != "" || r.QueriesSent != r.QueriesPlanned || r.packets() != int64(r.QueriesSent) {
			continue
		}
		compared = append(compared, r)
		b, ok := r.unplanned()
		switch {
		case !ok:
		case r.replayed():
			load = append(load, r)
			loadText = first(loadText, r, b)
		default:
			differ = append(differ, r)
			text = first(text, r, b)
		}
	}
	var out []Verdict
	if len(load) > 0 {
		out = append(out, Verdict{ID: "plan-differs", Level: Caution, Title: "The load was not what the plan took it to be",
			Text: fmt.Sprintf("In %s backends got other decisions than were planned; %s. The model fed with the packets that came gives what IPVS counted, so the kernel kept its rules.",
				of(len(load), len(compared), "run"), loadText),
			Evidence: []Evidence{{artifact.BackendsFile, firstIDs(load), "planned_decisions, replayed_decisions", "not equal"}},
			Remedy:   "Look at raw/" + load[0].RunID + "/queries.csv for the order and the number of source ports."})
	}
	if len(differ) > 0 {
		out = append(out, Verdict{ID: "kernel-differs", Level: Caution, Title: "The kernel decided otherwise than the model",
			Text: fmt.Sprintf("%s %s from the decisions that the model of IPVS had planned; %s. Either the kernel has another rule or bug, or something else asked the service.",
				of(len(differ), len(compared), "run"), verb(len(differ), "parts", "part"), text),
			Evidence: []Evidence{{artifact.BackendsFile, firstIDs(differ), "ipvs_conns_delta, planned_decisions", "not equal"}},
			Remedy:   "Look at raw/" + differ[0].RunID + "/conns.csv and at the capture for packets that are not the load's; docs/model.md says what the model leaves out."})
	}
	if len(compared) == 0 || len(out) > 0 {
		return out
	}
	return []Verdict{{ID: "as-planned", Level: OK, Title: "The kernel decided as its rules say",
		Text:     fmt.Sprintf("In %s each backend got exactly the decisions that the model of IPVS had planned.", of(len(compared), len(compared), "run")),
		Evidence: []Evidence{{artifact.BackendsFile, "valid runs", "ipvs_conns_delta, planned_decisions", fmt.Sprintf("equal in %d of %d runs", len(compared), len(compared))}}}}
}

// first keeps the text of the first run that differs.
func first(text string, r run, b artifact.BackendRow) string {
	if text != "" {
		return text
	}
	return fmt.Sprintf("in %s, %s got %d where %d were planned", r.RunID, Short(b.Backend), b.IPVSConnsDelta, *b.PlannedDecisions)
}

// unplanned is the first backend that got another number than was planned.
func (r run) unplanned() (artifact.BackendRow, bool) {
	i := slices.IndexFunc(r.rows, func(b artifact.BackendRow) bool { return int64(*b.PlannedDecisions) != b.IPVSConnsDelta })
	if i < 0 {
		return artifact.BackendRow{}, false
	}
	return r.rows[i], true
}

// planned reports whether the model was certain of the run.
func (r run) planned() bool {
	for _, b := range r.rows {
		if b.PlannedDecisions == nil {
			return false
		}
	}
	return len(r.rows) > 0
}

// replayed reports whether the model had a word on the packets of the run.
func (r run) replayed() bool { return r.Replay == "packets" || r.Replay == "counts" }

// asReplayed holds the kernel against the model fed with the packets that came:
// counters, the backend of each packet, rows of the table of connections.
func asReplayed(s *study) []Verdict {
	var compared, differ []run
	var left tallied
	for _, r := range s.valid {
		switch {
		case r.KernelDiffers != "":
			compared, differ = append(compared, r), append(differ, r)
		case r.replayed():
			compared = append(compared, r)
		case r.Replay != "":
			left.add(strings.Join(r.ReplayLimits, "; "))
		}
	}
	switch {
	case len(compared) == 0:
		return nil
	case len(differ) > 0:
		r := differ[0]
		return []Verdict{{ID: "kernel-differs", Level: Caution, Title: "The kernel decided otherwise than the model",
			Text: fmt.Sprintf("%s %s from what the model of IPVS makes of the packets that came. The first thing in %s: %s.",
				of(len(differ), len(compared), "run"), verb(len(differ), "parts", "part"), r.RunID, r.KernelDiffers),
			Evidence: []Evidence{{artifact.RunsFile, firstIDs(differ), "kernel_differs", "not empty"},
				{"raw/" + r.RunID + "/kernel-differs.txtar", "all", "events", "up to the difference"}},
			Remedy: "raw/" + r.RunID + "/kernel-differs.txtar lets it happen again, with the kernel, the settings and the list of destinations that a report of a bug needs. When nobody has changed the service meanwhile, the kernel or the model is wrong; docs/model.md says what the model leaves out."}}
	}
	decisions, packets, rows, each := 0, int64(0), 0, 0
	for _, r := range compared {
		decisions += int(r.IPVSConnsDelta)
		if r.Replay == "packets" {
			each, packets = each+1, packets+r.packets()
		}
		if r.ReplayRows != nil {
			rows += *r.ReplayRows
		} else if r.Replay == "packets" {
			left.add(strings.Join(r.ReplayLimits, "; "))
		}
	}
	text := fmt.Sprintf("In %s the model of IPVS, fed with the packets that came, gives each backend what IPVS counted: %s.",
		of(len(compared), len(compared), "run"), some(decisions, "connection"))
	if each > 0 {
		text += fmt.Sprintf(" In %s of them no packet was answered by another backend than the model sent it to (%s), and the tables of connections are the model's (%s).",
			Count(each), some(int(packets), "packet"), some(rows, "row"))
	}
	return []Verdict{{ID: "as-replayed", Level: OK, Title: "The kernel kept its rules, packet by packet", Text: text + left.text(),
		Evidence: []Evidence{{artifact.BackendsFile, "valid runs", "ipvs_conns_delta, replayed_decisions", fmt.Sprintf("equal in %d of %d runs", len(compared), len(compared))},
			{artifact.RunsFile, "valid runs", "replay_rows_differ", "0"}}}}
}

// tallied counts runs by the reason for which they were left out.
type tallied struct {
	reasons []string
	runs    map[string]int
}

func (t *tallied) add(reason string) {
	if t.runs == nil {
		t.runs = map[string]int{}
	}
	if t.runs[reason]++; t.runs[reason] == 1 {
		t.reasons = append(t.reasons, reason)
	}
}

func (t *tallied) text() string {
	var out []string
	for i, r := range t.reasons {
		if i == 3 {
			out = append(out, "…")
			break
		}
		out = append(out, some(t.runs[r], "run")+": "+r)
	}
	if len(out) == 0 {
		return ""
	}
	return " Not compared: " + strings.Join(out, "; ") + "."
}
