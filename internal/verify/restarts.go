package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
)

// restarts holds what the readings before and after a run say about themselves
// against the run's flags: a counter that began anew and a clock that was set must
// be flagged, and so must a report of dnsperf that cannot be read.
func restarts(c *Check, r artifact.Run, data *raw) {
	want := func(flag, why string) {
		if !slices.Contains(r.OutcomeFlags, flag) {
			c.fail(artifact.RunsFile, r.RunID, "outcome_flags lack %s: %s", flag, why)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(data.before)) {
		after, there := data.after[node]
		if !there {
			continue
		}
		if why := anew(data.before[node], after); why != "" {
			want("counters_restarted", node+": "+why)
		}
		if b, a := data.before[node].Clock, after.Clock; (strings.HasPrefix(node, "client.") || data.starts != nil && node == data.starts.At) && b != nil && a != nil {
			if by, most := a.OffsetNS-b.OffsetNS, a.WithinNS+b.WithinNS+1e6; by > most || by < -most {
				want("clock_jumped", fmt.Sprintf("%s: by %d ns", node, by))
			}
		}
	}
	if data.unread > 0 && !slices.Contains(r.OutcomeFlags, "cut_short") { // which covers a generator that was killed
		want("report_unreadable", fmt.Sprintf("%d reports of dnsperf cannot be read", data.unread))
	}
}

// anew says what began anew between two readings of a machine, "" when nothing did.
func anew(b, a proto.CounterSet) string {
	switch {
	case a.Boot != b.Boot:
		return "another boot"
	case b.Named != nil && a.Named != nil && a.Named.Started != b.Named.Started:
		return "another start of named"
	case b.Named != nil && a.Named != nil && (a.Named.Requests < b.Named.Requests || a.Named.Responses < b.Named.Responses):
		return "named's counters went back"
	}
	for name, was := range b.Links {
		if is, there := a.Links[name]; there && (is.Index != was.Index || is.RxPackets < was.RxPackets) {
			return "the counters of " + name + " went back"
		}
	}
	return ""
}
