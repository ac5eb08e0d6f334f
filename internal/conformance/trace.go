package conformance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// tracer writes down what becomes of every packet on a target.
type tracer struct {
	ipvsmodel.Target
	lines []string
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

// finish appends the connection table and what the destinations count.
func (t *tracer) finish(keys []ipvsmodel.Key) error {
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

// trace runs a script and returns its lines. A control event that is refused
// ends it with a line, so that a refusal by one side alone is a difference.
func trace(s ipvsmodel.Script, on ipvsmodel.Target) []string {
	t := &tracer{Target: on}
	if _, err := s.RunOn(t); err != nil {
		return append(t.lines, "refused")
	}
	if err := t.finish(keysOf(s)); err != nil {
		return append(t.lines, "no counts")
	}
	return t.lines
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

// Difference runs a script on the model and on the kernel: the first line that
// differs, "" when none does.
func Difference(text string) (string, error) {
	s, err := ipvsmodel.ParseScript(strings.NewReader(text))
	if err != nil {
		return "", err
	}
	want := trace(s, ipvsmodel.New(ipvsmodel.Kernel{}, 1))
	var got []string
	err = inSpace(func(k *kernel) error {
		got = trace(s, k)
		return nil
	})
	return firstDifference(want, got), err
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
