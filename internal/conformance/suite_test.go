package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// byModel replays on the model: a kernel that is always right.
func byModel(_ context.Context, text string) (proto.ReplayResult, error) {
	s, err := ipvsmodel.ParseScript(strings.NewReader(text))
	if err != nil {
		return proto.ReplayResult{}, err
	}
	return record(s, ipvsmodel.New(ipvsmodel.Kernel{}, 1)), nil
}

func outcomes(t *testing.T, cases []Case, replay Replayer) map[string]Outcome {
	t.Helper()
	out, seen := map[string]Outcome{}, 0
	list, err := RunCases(t.Context(), cases, Rules{Schedulers: Schedulers}, replay, func(Outcome) { seen++ })
	if err != nil || len(list) != len(cases) || seen != len(cases) {
		t.Fatal(len(list), seen, err)
	}
	for _, o := range list {
		out[o.Case] = o
	}
	return out
}

// What the model says of its own cases is right, in words that a kernel could
// have, too. Enough of them can be replayed to say something.
func TestCasesAgreeWithTheModel(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	replayed := 0
	for name, o := range outcomes(t, cases, byModel) {
		if o.Result == Differs {
			t.Errorf("%s: %s", name, o.Why)
		}
		if o.Result == Agrees {
			replayed++
		}
	}
	if replayed < len(cases)/2 {
		t.Errorf("only %d of %d can be replayed", replayed, len(cases))
	}
}

func TestOutcomes(t *testing.T) {
	const good = "service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.3:53\n"
	var cases []Case
	for name, text := range map[string]string{
		"right":   good + "send udp 10.0.0.1:1 10.0.0.100:53 -> 10.0.0.3:53",
		"wrong":   good + "send udp 10.0.0.1:1 10.0.0.100:53 -> 10.0.0.9:53\nrows 7",
		"refused": good + "remove udp 10.0.0.100:53 10.0.0.8:53",
		"long":    "wait 1h",
	} {
		cases = append(cases, Case{Name: name, Text: text, Script: parse(t, text), Measured: name == "right"})
	}
	got := outcomes(t, cases, byModel)
	for name, want := range map[string]Outcome{
		"right": {Origin: "measured", Result: Agrees, Tries: 1},
		"wrong": {Origin: "derived", Result: Differs, Tries: tries, Script: strings.TrimSpace(cases[indexOf(cases, "wrong")].Text),
			Why: "line 3: got 10.0.0.3:53, want 10.0.0.9:53 (send udp 10.0.0.1:1 10.0.0.100:53 -> 10.0.0.9:53)"},
		"long": {Origin: "derived", Result: LeftOut, Why: "needs 1h0m0s"},
	} {
		want.Case = name
		if got[name] != want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got[name], want)
		}
	}
	if o := got["refused"]; o.Result != Differs || !strings.HasPrefix(o.Why, "line 3: remove: ") {
		t.Errorf("refused: %+v", o)
	}
}

func indexOf(cases []Case, name string) int {
	for i, c := range cases {
		if c.Name == name {
			return i
		}
	}
	return -1
}

// A case that differs once, as in a guest that was kept from running, agrees.
func TestTriedAgain(t *testing.T) {
	first := true
	once := func(ctx context.Context, text string) (proto.ReplayResult, error) {
		if first {
			first = false
			return proto.ReplayResult{Wrong: []string{"line 1: 2 rows, want 4"}}, nil
		}
		return byModel(ctx, text)
	}
	text := "rows 0"
	if o := outcomes(t, []Case{{Name: "x", Text: text, Script: parse(t, text)}}, once)["x"]; o.Result != Agrees || o.Tries != 2 {
		t.Errorf("%+v", o)
	}
}

// TestRandom: a kernel that takes resets for data is found out, and the
// case is cut down; one whose guest is gone ends the run.
func TestRandom(t *testing.T) {
	r, err := RunRandom(t.Context(), 3, 20, ipvsmodel.Kernel{}, byModel, func(int) {})
	if err != nil || r.Differ != 0 || r.Cases != 20 || r.Packets < 100 {
		t.Errorf("%+v, %v", r, err)
	}
	noReset := func(ctx context.Context, text string) (proto.ReplayResult, error) {
		return byModel(ctx, strings.ReplaceAll(text, "flags=rst", "flags=ack"))
	}
	r, err = RunRandom(t.Context(), 3, 20, ipvsmodel.Kernel{}, noReset, func(int) {})
	if err != nil || r.Differ == 0 || len(r.First) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if o := r.First[0]; strings.Count(o.Script, "\n") > 5 || !strings.Contains(o.Script, "flags=rst") || !strings.Contains(o.Why, "; kernel: ") {
		t.Errorf("not cut down: %+v", o)
	}
	gone := errors.New("gone")
	if _, err := RunRandom(t.Context(), 3, 20, ipvsmodel.Kernel{}, func(context.Context, string) (proto.ReplayResult, error) { return proto.ReplayResult{}, gone }, func(int) {}); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// An old kernel is known by what it does, gets the cases of its kind, and not
// those that hold for newer ones only.
func TestOldKernel(t *testing.T) {
	old := ipvsmodel.Kernel{Before2026: true}
	byOld := func(_ context.Context, text string) (proto.ReplayResult, error) {
		s, err := ipvsmodel.ParseScript(strings.NewReader(text))
		if err != nil {
			return proto.ReplayResult{}, err
		}
		return record(s, ipvsmodel.New(old, 1)), nil
	}
	for replay, want := range map[*Replayer]ipvsmodel.Kernel{ptr(byOld): old, ptr(byModel): {}} {
		if got, err := AgeOf(t.Context(), *replay); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	cases = append(cases, Case{Name: "new only", Text: askOverhead, Script: parse(t, askOverhead)})
	list, err := RunCases(t.Context(), cases, Rules{Schedulers: Schedulers, Model: old}, byOld, func(Outcome) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		want := o.Result
		switch o.Case {
		case "new only":
			want = LeftOut
		case "lc and the overhead before 2026":
			want = Agrees
		}
		if o.Result == Differs || o.Result != want {
			t.Errorf("%s: %s %s", o.Case, o.Result, o.Why)
		}
	}
	r, err := RunRandom(t.Context(), 5, 20, old, byOld, func(int) {})
	if err != nil || r.Differ > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func ptr(r Replayer) *Replayer { return &r }
