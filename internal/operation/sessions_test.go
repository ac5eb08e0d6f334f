package operation

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/internal/verify"
	"github.com/lvslab/lvslab/plan/state"
)

// notices keeps the sentences that an operation says.
type notices []string

func (n *notices) Emit(e Event) {
	if e, ok := e.(NoticeEvent); ok {
		*n = append(*n, e.Text)
	}
}

func (n notices) String() string { return strings.Join(n, "\n") }

// began counts the sessions of a test: each begins a second after the one before.
var began = time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC)

// sitting is an apply of the built-in topology without a lab: what it is about is
// which runs it makes and what becomes of the result.
func sitting(t *testing.T, results string, blocks int, more ...func(*applying)) (*applying, *notices) {
	t.Helper()
	s := settings(t)
	said := &notices{}
	s.Events = said
	s.Variables = []Variable{{Name: "iterations", Value: fmt.Sprint(blocks)}}
	st, err := s.parse("builtin:lvs-tun-dns")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.resolve(st, state.State{Lineage: state.NewLineage()}); err != nil {
		t.Fatal(err)
	}
	factor := &st.topology.Experiments[0].Factors[0]
	factor.Values = factor.Values[:5]
	st.topology.Experiments[0].Controls = nil // five runs a block
	a := &applying{Settings: s, study: st, dir: memory(t), accel: hypervisor.TCG}
	a.opts.Results = results
	began = began.Add(time.Second)
	a.Started = began
	for _, change := range more {
		change(a)
	}
	reopen(t, a)
	if err := a.pendingTrials(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, said
}

// memory is a directory on which syncing takes no time, where there is one.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lvslab-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// open opens the result, and makes the first n of the runs that are to be made.
func (a *applying) open(t *testing.T, n int) *artifact.Writer {
	t.Helper()
	a.paths = sighting.Record{Paths: []sighting.Path{{Service: "service.dns", Client: "client.c", VIP: netip.MustParseAddr("198.18.0.101"), Backend: "backend.ns[0]"}}}
	w, err := a.openResult(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	planned, err := a.planned()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range a.study.topology.Experiments {
		for _, trial := range trialsOf(a.todo, e) {
			if n--; n >= 0 {
				a.fakeRun(t, w, trial, planned[trial.RunID])
			}
		}
	}
	return w
}

// fakeRun records a run as one on a lab would be.
func (a *applying) fakeRun(t *testing.T, w *artifact.Writer, trial experiment.Trial, planned map[string]int, more ...func(*artifact.Run)) {
	t.Helper()
	began = began.Add(time.Second)
	r := artifact.Run{RunID: trial.RunID, Experiment: trial.Experiment, TreatmentID: trial.Treatment.ID, Block: trial.Block, Order: trial.Order,
		PrevTreatment: trial.PrevTreatment, Factors: trial.Treatment.Factors, Protocol: trial.Treatment.Setting.Protocol, LoadMode: "dnsperf",
		StartedAt: began, QueriesPlanned: trial.Treatment.Setting.Queries, Valid: true}
	for _, change := range more {
		change(&r)
	}
	var rows []artifact.BackendRow
	for i := range 3 {
		b := artifact.BackendRow{RunID: r.RunID, Backend: fmt.Sprintf("backend.ns[%d]", i), Address: "198.18.0.30", Position: i}
		if n, certain := planned[b.Backend]; certain {
			b.PlannedDecisions = &n
		}
		rows = append(rows, b)
	}
	if err := experiment.Into(w).Record(r, rows, map[string][]byte{artifact.QueriesFile: []byte("n\n")}); err != nil {
		t.Fatal(err)
	}
	a.noteDone([]experiment.Done{{Run: r, Backends: rows}})
}

// end makes the runs that are left, and concludes.
func (a *applying) end(t *testing.T) *artifact.Artifact {
	t.Helper()
	w := a.open(t, len(a.todo))
	exit, err := a.conclude(t.Context(), w)
	if err != nil || exit != ExitDone {
		t.Fatalf("exit %d, %v", exit, err)
	}
	return sound(t, w.Dir())
}

// sound opens a sealed result, whose files, plan and blocks must be in order.
func sound(t *testing.T, dir string) *artifact.Artifact {
	t.Helper()
	report, err := verify.Result(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if slices.Contains([]string{"files", "plan", "parents", "paths", "answers"}, c.Name) && len(c.Problems) > 0 {
			t.Errorf("%s: %s: %v", dir, c.Name, c.Problems)
		}
	}
	r, err := artifact.OpenStudy(dir)
	if err != nil || !r.Sealed() {
		t.Fatalf("%s: sealed %v, %v", dir, r.Sealed(), err)
	}
	sessions := 0
	for _, link := range r.Links() {
		sessions += len(link.Manifest().Sessions)
	}
	if p, err := sighting.ProofsOf(r); err != nil || len(p) != sessions || len(p.All().Paths) != sessions {
		t.Errorf("%s: %d sessions, and proofs %+v, %v", dir, sessions, p, err)
	}
	return r
}

// killed is what a kill at this moment leaves on the disk: a copy of the results.
// The writer in this process keeps its hold on the original.
func killed(t *testing.T, results string) string {
	t.Helper()
	to := filepath.Join(memory(t), "results")
	if err := os.CopyFS(to, os.DirFS(results)); err != nil {
		t.Fatal(err)
	}
	return to
}

// identity is all of a result's rows but their times.
func identity(r *artifact.Artifact) string {
	var b strings.Builder
	for _, run := range r.Runs() {
		run.StartedAt = time.Time{}
		fmt.Fprintf(&b, "%+v\n", run)
	}
	return b.String()
}

func ids(trials []experiment.Trial) []string {
	var out []string
	for _, t := range trials {
		out = append(out, t.RunID)
	}
	return out
}

// A study that is killed anywhere, or interrupted, and continued, is in the end
// the one that was made in one go, but for its times and its sessions.
func TestStudyInSessions(t *testing.T) {
	whole, _ := sitting(t, memory(t), 2)
	want := whole.end(t)
	if len(want.Runs()) != 10 || len(want.Manifest().Sessions) != 1 || want.Manifest().Sessions[0].Runs != 10 || want.Manifest().Sessions[0].End != "sealed" {
		t.Fatalf("%d runs, sessions %+v", len(want.Runs()), want.Manifest().Sessions)
	}
	partial := func(t *testing.T, results string) string {
		list, err := artifact.Partials(results, "lvs-tun-dns")
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		return list[0]
	}
	cut := func(t *testing.T, results, name string, bytes int) {
		path := filepath.Join(partial(t, results), name)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, data[:len(data)-bytes], 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		made  int
		left  func(t *testing.T, a *applying, w *artifact.Writer) string // what is left on the disk
		whole int                                                        // runs that count
		again string                                                     // why a run is made again
		end   string                                                     // of the first session
	}{
		{"killed before the first run", 0, nil, 0, "", ""},
		{"killed between two runs", 7, nil, 7, "", ""},
		{"killed amid raw data", 7, func(t *testing.T, a *applying, w *artifact.Writer) string {
			d, err := w.StartRun(a.todo[7].RunID)
			if err == nil {
				err = d.WriteFile(artifact.QueriesFile, []byte("n"))
			}
			if err != nil {
				t.Fatal(err)
			}
			return killed(t, a.opts.Results)
		}, 7, "it has no row in runs.csv", ""},
		{"killed amid a row", 7, func(t *testing.T, a *applying, _ *artifact.Writer) string {
			results := killed(t, a.opts.Results)
			cut(t, results, artifact.RunsFile, 9)
			return results
		}, 6, "it has no row in runs.csv", ""},
		{"killed amid a backend's row", 7, func(t *testing.T, a *applying, _ *artifact.Writer) string {
			results := killed(t, a.opts.Results)
			dir := partial(t, results)
			cut(t, results, artifact.BackendsFile, 9)
			data, err := os.ReadFile(filepath.Join(dir, artifact.RunsFile))
			if err == nil { // rows of the backends come first
				lines := strings.SplitAfter(string(data), "\n")
				err = os.WriteFile(filepath.Join(dir, artifact.RunsFile), []byte(strings.Join(lines[:7], "")), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			return results
		}, 6, "it has no row in runs.csv", ""},
		{"interrupted", 7, func(t *testing.T, a *applying, w *artifact.Writer) string {
			if exit, err := a.interrupted(t.Context(), w, ErrInterrupted); err != ErrInterrupted || exit != ExitError {
				t.Fatalf("exit %d, %v", exit, err)
			}
			return a.opts.Results
		}, 7, "", "interrupted"},
		{"killed before the seal", 10, nil, 10, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, _ := sitting(t, memory(t), 2)
			w := first.open(t, c.made)
			var results string
			if c.left != nil {
				results = c.left(t, first, w)
			} else {
				results = killed(t, first.opts.Results)
			}
			second, said := sitting(t, results, 2)
			if second.unfinished == nil || len(second.todo) != 10-c.whole {
				t.Fatalf("%d pending: %s", len(second.todo), said)
			}
			var got *artifact.Artifact
			if c.whole == 10 {
				if !second.unsealed() || second.idle() || !strings.Contains(second.trialsLine(), "none pending, all 10 runs are in") {
					t.Errorf("unsealed %v: %s", second.unsealed(), second.trialsLine())
				}
				if exit, err := second.sealOnly(t.Context()); err != nil || exit != ExitDone {
					t.Fatalf("exit %d, %v", exit, err)
				}
				got = sound(t, strings.TrimSuffix(second.unfinished.Dir(), artifact.PartialSuffix))
			} else {
				if line := second.trialsLine(); !strings.Contains(line, fmt.Sprintf("%d of 10 runs pending, continuing", 10-c.whole)) {
					t.Errorf("the plan says %q", line)
				}
				got = second.end(t)
			}
			if (c.again == "") != (len(second.unfinished.Broken) == 0) || !strings.Contains(said.String(), c.again) {
				t.Errorf("made again: %v, said %s", second.unfinished.Broken, said)
			}
			if identity(got) != identity(want) || !slices.Equal(got.Manifest().RunOrder, want.Manifest().RunOrder) {
				t.Errorf("got\n%s\nwant\n%s", identity(got), identity(want))
			}
			m := got.Manifest()
			if m.Parent != nil || !m.StartedAt.Equal(first.Started) || len(m.Sessions) == 0 || m.Sessions[0].Runs != c.whole || m.Sessions[0].End != c.end {
				t.Errorf("manifest: parent %v, started %s, sessions %+v", m.Parent, m.StartedAt, m.Sessions)
			}
			if c.whole < 10 && (len(m.Sessions) != 2 || m.Sessions[1].Runs != 10-c.whole || m.Sessions[1].End != "sealed") {
				t.Errorf("sessions %+v", m.Sessions)
			}
			third, _ := sitting(t, results, 2)
			if len(third.todo) > 0 || third.result == "" || third.unfinished != nil {
				t.Errorf("after it was sealed: %s", third.trialsLine())
			}
		})
	}
}

// A session is killed while it continues: the third one finds all runs that both
// have made.
func TestKilledWhileContinuing(t *testing.T) {
	first, _ := sitting(t, memory(t), 2)
	first.open(t, 3)
	second, _ := sitting(t, killed(t, first.opts.Results), 2)
	second.open(t, 2)
	third, _ := sitting(t, killed(t, second.opts.Results), 2)
	if len(third.todo) != 5 {
		t.Fatalf("pending: %v", ids(third.todo))
	}
	m := third.end(t).Manifest()
	var made []int
	for _, s := range m.Sessions {
		made = append(made, s.Runs)
	}
	if !slices.Equal(made, []int{3, 2, 5}) {
		t.Errorf("runs of the sessions: %v", made)
	}
}

// What was changed after an interruption does not count: that run is made again,
// last, and the order of the others is as planned.
func TestRunChangedSinceTheInterruption(t *testing.T) {
	first, _ := sitting(t, memory(t), 1)
	w := first.open(t, 3)
	if _, err := first.interrupted(t.Context(), w, ErrInterrupted); err != ErrInterrupted {
		t.Fatal(err)
	}
	changed := first.todo[1].RunID
	if err := os.WriteFile(filepath.Join(w.Dir(), artifact.RawDir, changed, artifact.QueriesFile), []byte("forged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	second, said := sitting(t, first.opts.Results, 1)
	if len(second.todo) != 3 || second.todo[0].RunID != changed {
		t.Fatalf("pending: %v", ids(second.todo))
	}
	got := second.end(t)
	if !strings.Contains(said.String(), "Run "+changed+" is made again: raw/"+changed+"/queries.csv is changed since the interruption.") {
		t.Errorf("said %s", said)
	}
	if o := got.Manifest().RunOrder; len(o) != 5 || o[2] != changed || len(got.Runs()) != 5 {
		t.Errorf("run order %v", o)
	}
}

// Blocks that are added to a sealed result are made in another one that names it,
// and both together are what one study of so many blocks would have been.
func TestBlocksAreAdded(t *testing.T) {
	whole, _ := sitting(t, memory(t), 4)
	want := whole.end(t)
	results := memory(t)
	first, _ := sitting(t, results, 2)
	parent := first.end(t)
	second, _ := sitting(t, results, 3)
	if len(second.todo) != 5 || !strings.Contains(second.trialsLine(), "5 runs pending, added to the 10 of") {
		t.Fatalf("%s: %v", second.trialsLine(), ids(second.todo))
	}
	child := second.end(t)
	if p := child.Manifest().Parent; p == nil || p.Path != "../"+filepath.Base(parent.Dir()) || len(child.Links()) != 2 || len(child.Links()[1].Runs()) != 5 {
		t.Errorf("parent %+v", p)
	}
	if f := second.facts(); f[0].Blocks != 3 {
		t.Errorf("the report speaks of %d blocks", f[0].Blocks)
	}
	// The next one is interrupted: it is continued upon the same parents.
	third, _ := sitting(t, results, 4)
	third.open(t, 3)
	fourth, _ := sitting(t, killed(t, results), 4)
	if fourth.unfinished == nil || len(fourth.todo) != 2 {
		t.Fatalf("%s", fourth.trialsLine())
	}
	got := fourth.end(t)
	if len(got.Links()) != 3 || identity(got) != identity(want) {
		t.Errorf("%d links, got\n%s\nwant\n%s", len(got.Links()), identity(got), identity(want))
	}
	// Fewer blocks than there are ask for nothing.
	for _, blocks := range []int{1, 4} {
		if a, _ := sitting(t, fourth.opts.Results, blocks); len(a.todo) > 0 || a.result == "" {
			t.Errorf("%d blocks: %s", blocks, a.trialsLine())
		}
	}
}

// The numbers of blocks may change while a study is interrupted: what was begun is
// finished, and the rest is as many blocks as are asked for.
func TestOtherBlocksWhenContinuing(t *testing.T) {
	for _, c := range []struct{ first, made, second, want int }{{3, 7, 1, 10}, {2, 3, 3, 15}, {2, 10, 3, 15}} {
		a, _ := sitting(t, memory(t), c.first)
		a.open(t, c.made)
		b, _ := sitting(t, killed(t, a.opts.Results), c.second)
		if b.unfinished == nil || len(b.todo) != c.want-c.made {
			t.Fatalf("%+v: %s", c, b.trialsLine())
		}
		if r := b.end(t); len(r.Runs()) != c.want || len(r.Links()) != 1 {
			t.Errorf("%+v: %d runs", c, len(r.Runs()))
		}
	}
}

// Squares that a study begins with stay squares when blocks are added.
func TestBlocksAddedToSquares(t *testing.T) {
	results := memory(t)
	first, _ := sitting(t, results, 5)
	first.end(t)
	second, _ := sitting(t, results, 7)
	m := second.end(t).Manifest()
	whole, _ := sitting(t, memory(t), 10)
	if m.BlockOrder["schedulers"] != artifact.OrderSquares || !slices.Equal(ids(second.todo), ids(whole.todo[25:35])) {
		t.Errorf("%v: %v", m.BlockOrder, ids(second.todo))
	}
}

// What an interrupted study is not continued for is said, and it stays.
func TestWhyNotContinued(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string) func(*applying)
		want   string
	}{
		{"--fresh", func(*testing.T, string) func(*applying) { return func(a *applying) { a.opts.Fresh = true } }, "a study of its own was asked for"},
		{"another study", func(*testing.T, string) func(*applying) {
			return func(a *applying) { a.study.topology.Experiments[0].Seed++ }
		}, "it is of another study"},
		{"another kernel", func(*testing.T, string) func(*applying) {
			return func(a *applying) { a.image.KernelRelease = "6.12.1" }
		}, "its runs were made with guests' kernel 6.1.0, now it is 6.12.1, and the two are not mixed"},
		{"a table was changed", func(t *testing.T, dir string) func(*applying) {
			f, err := os.OpenFile(filepath.Join(dir, artifact.RunsFile), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("\n")
				f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			return func(*applying) {}
		}, "runs.csv was changed since the interruption"},
	} {
		t.Run(c.name, func(t *testing.T) {
			results := memory(t)
			first, _ := sitting(t, results, 1)
			w := first.open(t, 2)
			first.sessions[0].Versions.GuestKernel = "6.1.0"
			m, err := first.manifest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m.Versions.GuestKernel = "6.1.0"
			if _, err := w.Abandon(m, "test"); err != nil {
				t.Fatal(err)
			}
			second, said := sitting(t, results, 1, c.change(t, w.Dir()))
			if second.unfinished != nil || len(second.todo) != 5 || !strings.Contains(said.String(), c.want) || !strings.Contains(said.String(), "is not continued") {
				t.Fatalf("%d pending, said %s", len(second.todo), said)
			}
			second.end(t)
			if list, _ := artifact.Partials(results, "lvs-tun-dns"); len(list) != 1 {
				t.Errorf("partial results: %v", list)
			}
			// The newer, sealed one is what counts from now on.
			if third, _ := sitting(t, results, 1, c.change(t, w.Dir())); c.name != "--fresh" && (len(third.todo) > 0 || third.result == "") {
				t.Errorf("after it: %s", third.trialsLine())
			}
		})
	}
}

// Somebody else writes to the result: this apply makes one of its own.
func TestBusyResult(t *testing.T) {
	results := memory(t)
	first, _ := sitting(t, results, 1)
	w := first.open(t, 2)
	defer runtime.KeepAlive(w) // and with it its hold
	second, said := sitting(t, results, 1)
	if second.unfinished != nil || len(second.todo) != 5 || !strings.Contains(said.String(), "another lvslab writes to it") {
		t.Errorf("%d pending, said %s", len(second.todo), said)
	}
}

// A sealed result with a hole is made anew as a whole: a hole is no block.
func TestHolesAreNotFilled(t *testing.T) {
	results := memory(t)
	first, _ := sitting(t, results, 2)
	first.todo = slices.Delete(first.todo, 3, 4)
	w := first.open(t, 9)
	if _, err := first.conclude(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	second, said := sitting(t, results, 2)
	if second.parent != nil || len(second.todo) != 10 || !strings.Contains(said.String(), "lacks 1 of 10 runs; they are all made anew") {
		t.Errorf("%d pending, said %s", len(second.todo), said)
	}
}

// A parent that is gone or was changed is an error that names it.
func TestParentChanged(t *testing.T) {
	results := memory(t)
	first, _ := sitting(t, results, 1)
	parent := first.end(t)
	second, _ := sitting(t, results, 2)
	child := second.end(t)
	path := filepath.Join(parent.Dir(), artifact.ManifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"changed": func() error { return os.WriteFile(path, append(data, '\n'), 0o644) },
		"gone":    func() error { return os.Remove(path) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := artifact.OpenStudy(child.Dir()); err == nil || !strings.Contains(err.Error(), parent.Dir()) {
			t.Errorf("%s: %v", name, err)
		}
		r, err := verify.Result(t.Context(), child.Dir())
		if err != nil || r.OK() {
			t.Errorf("%s: verify says ok %v, %v", name, r.OK(), err)
		}
	}
}
