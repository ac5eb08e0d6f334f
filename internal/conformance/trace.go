package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// tracer writes down what becomes of every packet on a target.
type tracer struct {
	ipvsmodel.Target
	lines []string
	now   time.Duration // of the script
}

func (t *tracer) Advance(at time.Duration) {
	t.now = at
	t.Target.Advance(at)
}

func (t *tracer) Packet(at time.Duration, p *ipvsmodel.Packet) ipvsmodel.Decision {
	d := t.Target.Packet(at, p)
	to := "nobody"
	if d.Why <= ipvsmodel.ByTemplate {
		to = d.Backend.Addr().String()
	}
	t.lines = append(t.lines, fmt.Sprintf("%s %v to %v mark %d flags %d: %s", p.Protocol, p.Client, p.VIP, p.Mark, p.Flags, to))
	return d
}

// finish appends the connection table and what the destinations count. What the
// kernel has put off to its next tick is done before: a SYN that replaces a
// closed entry lets that end by its timer (ip_vs_conn_expire_now).
func (t *tracer) finish(keys []ipvsmodel.Key) error {
	t.Target.Advance(t.now)
	var rows []string
	for _, e := range t.Entries() {
		proto := e.Protocol.String()
		if e.Template {
			proto = "template" // a mark's template has no protocol
		}
		rows = append(rows, fmt.Sprintf("entry %s %v %v at %v %s", proto, e.Client, e.VIP, e.Backend, e.State))
	}
	slices.Sort(rows)
	t.lines = append(t.lines, rows...)
	for _, k := range keys {
		counts, err := t.Counts(k)
		if err != nil {
			return err
		}
		for _, c := range counts {
			t.lines = append(t.lines, fmt.Sprintf("%v weight %d: active %d inactive %d persistent %d", c.Address, c.Weight, c.Active, c.Inactive, c.Persistent))
		}
	}
	return nil
}

// record runs a script and returns what came of it. A control event that is
// refused ends the trace with a line, so that a refusal by one side alone is a
// difference.
func record(s ipvsmodel.Script, on ipvsmodel.Target) proto.ReplayResult {
	t := &tracer{Target: on}
	wrong, err := s.RunOn(t)
	out := proto.ReplayResult{Wrong: wrong}
	switch {
	case err != nil:
		out.Refused = err.Error()
		t.lines = append(t.lines, "refused")
	case t.finish(keysOf(s)) != nil:
		t.lines = append(t.lines, "no counts")
	}
	out.Trace = t.lines
	return out
}

// keysOf lists the services that stand at the end.
func keysOf(s ipvsmodel.Script) (out []ipvsmodel.Key) {
	for _, step := range s.Steps {
		if step.Verb != "service" && step.Verb != "delete" {
			continue
		}
		k := ipvsmodel.Key{Protocol: ipvsmodel.UDP}
		if step.Args[0] == "mark" {
			k.Protocol = 0
			_, _ = fmt.Sscan(step.Args[1], &k.Mark)
		} else {
			if step.Args[0] == "tcp" {
				k.Protocol = ipvsmodel.TCP
			}
			k.VIP, _ = netip.ParseAddrPort(step.Args[1])
		}
		if step.Verb == "service" {
			out = append(out, k)
		} else {
			out = slices.DeleteFunc(out, func(have ipvsmodel.Key) bool { return have == k })
		}
	}
	return out
}

func firstDifference(model, kernel []string) string {
	for i := range max(len(model), len(kernel)) {
		m, k := "nothing", "nothing"
		if i < len(model) {
			m = model[i]
		}
		if i < len(kernel) {
			k = kernel[i]
		}
		if m != k {
			return fmt.Sprintf("model: %s; kernel: %s", m, k)
		}
	}
	return ""
}
