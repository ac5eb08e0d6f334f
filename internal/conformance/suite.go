package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// Replayer carries a script out on the kernel in question, as [Replay] does.
type Replayer func(ctx context.Context, script string) (proto.ReplayResult, error)

// What becomes of a case.
const (
	Agrees  = "agrees"
	Differs = "differs"
	LeftOut = "not replayable"
)

// Outcome is one case on one kernel.
type Outcome struct {
	Case string `json:"case"`
	// Origin is measured or derived: where the expectation comes from; random for
	// a case whose expectation is the model's.
	Origin string `json:"origin"`
	Result string `json:"result"`
	// Why is the reason for leaving it out, or the first event that differs.
	Why string `json:"why,omitempty"`
	// Script, of a case that differs, is what shows it again.
	Script string `json:"script,omitempty"`
	// Tries, when not 1, is how often it was replayed until it agreed.
	Tries int `json:"tries,omitempty"`
}

// tries is how often a case may differ before it counts. A script's clock stands
// still between its waits and the kernel's does not: a guest that was kept from
// running for a jiffy (4 ms) between two events has another history than the
// script. What the kernel's rules make different is so each time.
const tries = 3

// RunCases holds the cases against a kernel of these rules, one after the other;
// with [Rules.Long] those that wait for long are replayed after them, all at the
// same time. seen hears of each outcome as it comes.
func RunCases(ctx context.Context, cases []Case, rules Rules, replay Replayer, seen func(Outcome)) ([]Outcome, error) {
	out := make([]Outcome, len(cases))
	var long []int
	for i, c := range cases {
		if waits(c.Script) > longest && rules.Long {
			long = append(long, i)
			continue
		}
		if err := rules.hold(ctx, c, replay, &out[i]); err != nil {
			return out[:i], err
		}
		seen(out[i])
	}
	// Beside these nothing else happens but their waiting.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var one sync.Mutex // hears
	for _, i := range long {
		all.Go(func() {
			err := rules.hold(ctx, cases[i], replay, &out[i])
			one.Lock()
			defer one.Unlock()
			if err != nil {
				cancel(err) // the others need not wait
				return
			}
			seen(out[i])
		})
	}
	all.Wait()
	return out, context.Cause(ctx)
}

// hold replays a case, if it can be.
func (r Rules) hold(ctx context.Context, c Case, replay Replayer, o *Outcome) (err error) {
	*o = Outcome{Case: c.Name, Origin: "derived", Result: Agrees}
	if c.Measured {
		o.Origin = "measured"
	}
	text, why := r.fit(c)
	if why != "" {
		o.Result, o.Why = LeftOut, why
		return nil
	}
	if o.Why, o.Tries, err = steady(func() (string, error) {
		r, err := replay(ctx, text)
		return firstWrong(text, r), err
	}); err != nil {
		return fmt.Errorf("case %s: %w", c.Name, err)
	}
	if o.Why != "" {
		o.Result, o.Script = Differs, strings.TrimSpace(text)
	}
	return nil
}

// steady returns the last difference of several tries, "" when one had none.
func steady(try func() (string, error)) (string, int, error) {
	for n := 1; ; n++ {
		if found, err := try(); err != nil || found == "" || n == tries {
			return found, n, err
		}
	}
}

// firstWrong is the first event that did not give what the script says, "" when
// all did.
func firstWrong(text string, r proto.ReplayResult) string {
	var first string
	switch {
	case len(r.Wrong) > 0:
		first = r.Wrong[0]
	case r.Refused != "":
		first = r.Refused
	default:
		return ""
	}
	var line int
	if _, err := fmt.Sscanf(first, "line %d:", &line); err != nil {
		return first
	}
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return first
	}
	return fmt.Sprintf("%s (%s)", first, strings.TrimSpace(lines[line-1]))
}

// Random is what random cases on one kernel gave.
type Random struct {
	Seed    uint64 `json:"seed"`
	Cases   int    `json:"cases"`
	Packets int    `json:"packets"` // whose backend was compared
	Differ  int    `json:"differ"`
	// First are the first that differ, cut down to what matters.
	First []Outcome `json:"first,omitempty"`
}

// minimised is how many cases that differ are cut down; the rest are counted.
const minimised = 3

// RunRandom holds random cases against the kernel. seen hears how many are done.
func RunRandom(ctx context.Context, seed uint64, count int, age ipvsmodel.Kernel, replay Replayer, seen func(done int)) (Random, error) {
	out := Random{Seed: seed}
	for n := range count {
		lines := Generate(seed, uint64(n))
		found, packets, err := difference(ctx, lines, age, replay)
		if err != nil {
			return out, fmt.Errorf("seed %d, case %d: %w", seed, n, err)
		}
		out.Cases++
		out.Packets += packets
		if found != "" {
			if out.Differ++; len(out.First) < minimised {
				found, lines = smallest(ctx, found, lines, age, replay)
				out.First = append(out.First, Outcome{Case: fmt.Sprintf("seed %d, case %d", seed, n), Origin: "random",
					Result: Differs, Why: found, Script: strings.Join(lines, "\n")})
			}
		}
		seen(n + 1)
	}
	return out, ctx.Err()
}

// smallest cuts lines down to those that still differ.
func smallest(ctx context.Context, found string, lines []string, age ipvsmodel.Kernel, replay Replayer) (string, []string) {
	small := Minimise(lines, func(l []string) bool {
		d, _, err := difference(ctx, l, age, replay)
		return err == nil && d != ""
	})
	if d, _, err := difference(ctx, small, age, replay); err == nil && d != "" {
		return d, small
	}
	return found, lines
}

// difference runs lines on the model and on the kernel: the first line of their
// traces that differs, "" when none does, and how many packets there were.
func difference(ctx context.Context, lines []string, age ipvsmodel.Kernel, replay Replayer) (string, int, error) {
	text := strings.Join(lines, "\n")
	s, err := ipvsmodel.ParseScript(strings.NewReader(text))
	if err != nil {
		return "", 0, err
	}
	model := record(s, ipvsmodel.New(age, 1))
	found, _, err := steady(func() (string, error) {
		got, err := replay(ctx, text)
		return firstDifference(model.Trace, got.Trace), err
	})
	packets := 0
	for _, l := range model.Trace {
		if strings.Contains(l, " flags ") {
			packets++
		}
	}
	return found, packets, err
}
