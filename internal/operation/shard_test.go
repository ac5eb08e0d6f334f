package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/sighting"
)

// Every block belongs to one share, and a share has blocks unless there are fewer
// of them than shares.
func TestSharesPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, blocks := rapid.IntRange(1, 9).Draw(t, "shares"), rapid.IntRange(1, 30).Draw(t, "blocks")
		var trials []experiment.Trial
		for b := 1; b <= blocks; b++ {
			trials = append(trials, experiment.Trial{Block: b})
		}
		seen := map[int]int{}
		for i := 1; i <= n; i++ {
			s := artifact.Share{I: i, N: n}
			has := 0
			for _, x := range trials {
				if s.Has(x.Block) {
					seen[x.Block]++
					has++
				}
			}
			if err := someBlock(s, trials); (err == nil) != (has > 0) || (has == 0) != (i > blocks) {
				t.Fatalf("share %s of %d blocks has %d: %v", s, blocks, has, err)
			}
		}
		for b := 1; b <= blocks; b++ {
			if seen[b] != 1 {
				t.Fatalf("block %d is in %d shares", b, seen[b])
			}
		}
	})
}

func share(text string) func(*applying) {
	return func(a *applying) {
		if err := a.opts.Shard.Set(text); err != nil {
			panic(err)
		}
	}
}

// Two shares, each in a lab of its own, merged: the rows, the plan and the verdicts
// are those of a study that was made in one go.
func TestSharesMerged(t *testing.T) {
	whole, _ := sitting(t, memory(t), 3)
	want := whole.end(t)
	results := memory(t)
	var dirs []string
	for i := 1; i <= 2; i++ {
		a, _ := sitting(t, results, 3, share(fmt.Sprintf("%d/2", i)))
		runs := 15 - 5*i // three blocks of five runs: 1 and 3, and 2
		if len(a.todo) != runs || a.trialsLine() != fmt.Sprintf("Trials: %d runs pending, share %d/2 of the study's 15.", runs, i) {
			t.Fatalf("share %d: %s", i, a.trialsLine())
		}
		got := a.end(t)
		dirs = append(dirs, got.Dir())
		if m := got.Manifest(); m.Shard != fmt.Sprintf("%d/2", i) || m.Study != want.Manifest().Study {
			t.Errorf("share %d: manifest has share %q, study %.12s", i, m.Shard, m.Study)
		}
		again, _ := sitting(t, results, 3, share(fmt.Sprintf("%d/2", i)))
		if len(again.todo) != 0 || !strings.HasPrefix(again.trialsLine(), fmt.Sprintf("Trials: none, share %d/2 of the study is complete in ", i)) {
			t.Errorf("share %d again: %s", i, again.trialsLine())
		}
	}
	if all, _ := sitting(t, results, 3); len(all.todo) != 15 {
		t.Errorf("a share was taken for the study: %s", all.trialsLine())
	}

	s := settings(t)
	said := &lastScreen{}
	s.Events = said
	began = began.Add(time.Second)
	s.Started = began
	junit := filepath.Join(t.TempDir(), "junit.xml")
	exit, err := Merge(t.Context(), s, dirs, MergeOptions{Results: results, JUnit: junit})
	if err != nil || exit != ExitDone {
		t.Fatalf("exit %d, %v", exit, err)
	}
	got := sound(t, said.artifact)
	for _, r := range got.Runs() {
		delete(r.Factors, artifact.HostFactor)
	}
	if identity(got) != identity(want) || !slices.Equal(got.Manifest().RunOrder, want.Manifest().RunOrder) {
		t.Errorf("got\n%s\nwant\n%s", identity(got), identity(want))
	}
	if a, b := runsPlanned(t, got), runsPlanned(t, want); a != b {
		t.Errorf("the plan of the merged result is another:\n%s\n%s", a, b)
	}
	if a, b := checksSaid(t, got), checksSaid(t, want); a != b || a == "" {
		t.Errorf("checks %s, of one result %s", a, b)
	}
	if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), "<testsuite") {
		t.Errorf("junit: %s, %v", text, err)
	}
	proofs, err := sighting.ProofsOf(got)
	if err != nil || len(proofs) != 2 {
		t.Fatalf("proofs %+v, %v", proofs, err)
	}
	for i, p := range proofs {
		if s := got.Manifest().Sessions[i]; p.Shard != fmt.Sprintf("%d/2", i+1) || p.Result != filepath.Base(dirs[i]) || !p.Session.Equal(s.StartedAt) || p.Host != s.Host.Label() {
			t.Errorf("proof %+v of session %+v", p, s)
		}
	}
	if done, _ := sitting(t, results, 3); len(done.todo) != 0 || done.result == "" {
		t.Errorf("the study is not complete: %s", done.trialsLine())
	}
	if more, said := sitting(t, results, 4); len(more.todo) != 20 || !strings.Contains(said.String(), "it was merged from shares") {
		t.Errorf("a block more: %d, %s", len(more.todo), said)
	}
}

// lastScreen keeps what the end of an operation names.
type lastScreen struct{ artifact string }

func (s *lastScreen) Emit(e Event) {
	if e, ok := e.(SummaryEvent); ok {
		s.artifact = e.Artifact
	}
}

// runsPlanned is what a plan says about the runs.
func runsPlanned(t *testing.T, a *artifact.Artifact) string {
	t.Helper()
	data, err := a.ReadFile(artifact.PlanFile)
	var p struct {
		Pending                                                         int
		Addresses, Study, Planned_Decisions, Source_Ports, Lab, Version any
	}
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v", p)
}

// checksSaid are the checks of a result's summary.
func checksSaid(t *testing.T, a *artifact.Artifact) string {
	t.Helper()
	data, err := a.ReadFile(artifact.SummaryJSONFile)
	var s struct {
		Checks []struct{ Name, Message string }
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v", s.Checks)
}

// A share that was interrupted is continued by the same share, and by no other.
func TestShareContinued(t *testing.T) {
	results := memory(t)
	first, _ := sitting(t, results, 4, share("2/2"))
	w := first.open(t, 3)
	if _, err := first.interrupted(t.Context(), w, ErrInterrupted); err != ErrInterrupted {
		t.Fatal(err)
	}
	for _, other := range []string{"1/2", "2/3"} {
		if a, said := sitting(t, results, 4, share(other)); a.unfinished != nil || len(*said) > 0 {
			t.Errorf("share %s continues %s: %s", other, a.unfinished.Dir(), said)
		}
	}
	again, _ := sitting(t, results, 4, share("2/2"))
	if line := again.trialsLine(); !strings.Contains(line, "7 of 10 runs of share 2/2 pending, continuing") {
		t.Fatalf("the plan says %q", line)
	}
	got := again.end(t)
	blocks := map[int]int{}
	for _, r := range got.Runs() {
		blocks[r.Block]++
	}
	if len(blocks) != 2 || blocks[2] != 5 || blocks[4] != 5 {
		t.Errorf("runs by block: %v", blocks)
	}
	if more, said := sitting(t, results, 6, share("2/2")); len(more.todo) != 15 || !strings.Contains(said.String(), "lacks 5 of 15 runs; they are all made anew, in a result of their own: blocks are not added to a share.") {
		t.Errorf("a block more: %d, %s", len(more.todo), said)
	}
}

// A share without a block is a mistake that is found before anything is made.
func TestShareWithoutBlocks(t *testing.T) {
	s := settings(t)
	s.Variables = []Variable{{Name: "iterations", Value: "2"}}
	var o ApplyOptions
	o.Shard = artifact.Share{I: 3, N: 3}
	_, err := s.prepare("builtin:lvs-tun-dns", o)
	if d := diag.From(err); len(d) != 1 || d[0].Summary != "A share without blocks" || !strings.Contains(d[0].Detail, "--shard 3/3: the study has 2 blocks") {
		t.Errorf("%v", err)
	}
	o.Shard = artifact.Share{I: 2, N: 2}
	if _, err := s.prepare("builtin:lvs-tun-dns", o); err != nil {
		t.Error(err)
	}
}

// What is no result, or no share, cannot be merged; nothing is left of the try.
func TestMergeRefused(t *testing.T) {
	results := memory(t)
	a, _ := sitting(t, results, 2, share("1/2"))
	dir := a.end(t).Dir()
	for _, dirs := range [][]string{{filepath.Join(results, "none")}, {dir}, {dir, dir}} {
		s := settings(t)
		s.Started = began
		to := filepath.Join(t.TempDir(), "merged")
		if exit, err := Merge(context.Background(), s, dirs, MergeOptions{Results: to}); err == nil || exit != ExitError {
			t.Errorf("%v: exit %d, %v", dirs, exit, err)
		}
		if _, err := os.Stat(to); !os.IsNotExist(err) {
			t.Errorf("%v: something was written: %v", dirs, err)
		}
	}
}
