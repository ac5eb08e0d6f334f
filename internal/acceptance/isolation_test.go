package acceptance

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/plan/state"
)

// threeBackends makes the backend of the small lab three.
func threeBackends(lab, prefix, rest string) string {
	return strings.Replace(small(lab, prefix, rest), `backend "web" {`, "backend \"web\" {\n  count = 3", 1)
}

// matrix is an experiment that isolates its runs so.
func matrix(label, isolation string, blocks int, schedulers, sockets string) string {
	return fmt.Sprintf(`
experiment %q {
  service    = service.s
  clients    = client.probe
  iterations = %d
  seed       = 11
  isolation  = %q
  factor "scheduler" { values = [%s] }
  factor "sockets" { values = [%s] }
  load "dnsperf" { queries = 120 }
}
`, label, blocks, isolation, schedulers, sockets)
}

// decided is all that a run says of its scheduler: what each backend got, and
// which backend each new source port went to, in order.
type decided struct {
	Decisions int
	Backends  []string
	Ports     string
}

// TestAccIsolation runs the same matrix with the director's IPVS flushed, with
// the director made anew and with all machines made anew, on one lab. The
// schedulers are deterministic: what they decide must be the same to the last
// packet, else a flush leaves something behind.
func TestAccIsolation(t *testing.T) {
	s := newSite(t, threeBackends("isolated", "198.19.24",
		matrix("flushed", "flush", 2, `"rr", "sh", "dh", "sed"`, "1, 20")+
			matrix("restored", "restore", 2, `"rr", "sh", "dh", "sed"`, "1, 20")+
			matrix("anew", "restore-all", 1, `"rr", "sed"`, "20")))
	r := s.must(0, 10*time.Minute, "apply", "--keep", "lab.hcl")
	for _, want := range []string{"before each run director.front made anew", "before each run client.probe, director.front, backend.web[0]"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the plan lacks %q: %s", want, r)
		}
	}
	a := s.latest("isolated")
	by := map[string]map[string][]decided{}
	for _, run := range a.Runs() {
		if !run.Valid || run.AnswersOK != 120 {
			t.Errorf("run %s of %s: %+v", run.RunID, run.Experiment, run)
			continue
		}
		if by[run.Experiment] == nil {
			by[run.Experiment] = map[string][]decided{}
		}
		by[run.Experiment][run.TreatmentID] = append(by[run.Experiment][run.TreatmentID], decisionsOf(t, a, run))
	}
	if len(by["flushed"]) != 8 || len(by["restored"]) != 8 || len(by["anew"]) != 2 {
		t.Fatalf("treatments: %v", by)
	}
	for label, treatments := range by {
		for id, list := range treatments {
			for _, d := range list {
				if diff := cmp.Diff(by["flushed"][id][0], d); diff != "" {
					t.Errorf("%s of %s decides otherwise than flushed (-flushed +%s):\n%s", id, label, label, diff)
				}
			}
		}
	}
	if rr := by["restored"]["scheduler=rr,sockets=20"][0]; rr.Decisions != 20 || !strings.HasPrefix(rr.Ports, "012012") {
		t.Errorf("round robin does not go round: %+v", rr)
	}
	renewedAsTold(t, a)
	t.Logf("round robin: %+v", by["restored"]["scheduler=rr,sockets=20"][0])

	// After all that the lab is as declared, and the journal is short.
	s.must(0, time.Minute, "plan", "--keep", "--detailed-exitcode", "lab.hcl")
	s.must(0, time.Minute, "exec", "director.front", "--", "true")
	if info, err := os.Stat(filepath.Join(s.dir, ".lvslab", "isolated", "journal.jsonl")); err != nil || info.Size() > 1000 {
		t.Errorf("the journal after %d runs: %v, %v", len(a.Runs()), info.Size(), err)
	}
}

// decisionsOf reads a run's rows and queries.
func decisionsOf(t *testing.T, a *artifact.Artifact, run artifact.Run) decided {
	t.Helper()
	d := decided{Decisions: *run.Decisions}
	for _, b := range a.Backends() {
		if b.RunID == run.RunID {
			d.Backends = append(d.Backends, fmt.Sprintf("%s at %d: %d connections, %d packets, %d out of the tunnel, %d requests, %d answers",
				b.Backend, b.Position, b.IPVSConnsDelta, b.IPVSInPackets, *b.TunnelRxPackets, b.NamedRequests, b.AnswersOK))
		}
	}
	rows := queriesOf(t, a, run)
	port, backend := slices.Index(rows[0], "port"), slices.Index(rows[0], "backend")
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		if !seen[row[port]] {
			seen[row[port]] = true
			d.Ports += strings.Trim(row[backend], "backend.web[]")
		}
	}
	return d
}

// queriesOf reads a run's queries.csv, the first row being the names of the columns.
func queriesOf(t *testing.T, a *artifact.Artifact, run artifact.Run) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(a.Dir(), "raw", run.RunID, "queries.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// renewedAsTold: every run has the machines that it was promised, clones all of
// them, and no two runs have the same boot, seed or host key.
func renewedAsTold(t *testing.T, a *artifact.Artifact) {
	t.Helper()
	m := a.Manifest()
	if m.Isolation["flushed"] != "flush" || m.Isolation["restored"] != "restore" || m.Isolation["anew"] != "restore-all" {
		t.Errorf("manifest: isolation %v", m.Isolation)
	}
	want := map[string]int{"flushed": 0, "restored": 1, "anew": 5}
	seen := map[string]bool{}
	for _, run := range a.Runs() {
		list := renewedOf(t, a, run.RunID)
		if len(list) != want[run.Experiment] || len(m.Renewed[run.RunID]) != len(list) {
			t.Errorf("%s of %s: made anew %v, manifest %v", run.RunID, run.Experiment, list, m.Renewed[run.RunID])
		}
		for _, one := range list {
			if one.Template == "" || one.BootID != m.Renewed[run.RunID][one.Node] {
				t.Errorf("%s: %+v, manifest %v", run.RunID, one, m.Renewed[run.RunID])
			}
			for _, mark := range []string{one.BootID, one.Seed, one.HostKey} {
				if seen[mark] || mark == "" {
					t.Errorf("%s: %s has %q, which was there before", run.RunID, one.Node, mark)
				}
				seen[mark] = true
			}
		}
	}
}

func renewedOf(t *testing.T, a *artifact.Artifact, runID string) []experiment.Renewed {
	t.Helper()
	body, err := a.ReadFile("raw/" + runID + "/" + experiment.RenewedFile)
	if os.IsNotExist(err) {
		return nil
	}
	var list []experiment.Renewed
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		t.Errorf("%s: %v", runID, err)
	}
	return list
}

const restoredRuns = `
variable "blocks" {
  type    = number
  default = 1
}

experiment "load" {
  service    = service.s
  clients    = client.probe
  iterations = var.blocks
  seed       = 3
  isolation  = "restore"
  load "dnsperf" { queries = 50 }
}
`

// TestAccKilledWhileRestoring: whoever is killed while the director is missing
// or half made leaves a lab that the next apply repairs and destroy takes down.
// Where the director is never cloned it is booted, and that is said.
func TestAccKilledWhileRestoring(t *testing.T) {
	s := newSite(t, small("cutoff", "198.19.25", restoredRuns))
	s.killedWithoutDirector()
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if left := s.own(); len(left) > 0 {
		t.Fatalf("killed and destroyed, left: %v", left)
	}
	s.killedWithoutDirector()
	began := time.Now()
	r := s.must(0, 4*time.Minute, "apply", "--keep", "--auto-approve", "lab.hcl")
	if took := time.Since(began); took > 90*time.Second || strings.Contains(r.stdout+r.stderr, "had borrowed settings") {
		t.Errorf("repaired after %s: %s", took, r)
	}
	a := s.latest("cutoff")
	if runs := a.Runs(); len(runs) != 1 || !runs[0].Valid || len(renewedOf(t, a, runs[0].RunID)) != 1 {
		t.Errorf("runs after the repair: %+v", runs)
	}

	cold := strings.Replace(small("cutoff", "198.19.25", restoredRuns), `director "front" {`, "director \"front\" {\n  boot = \"cold\"", 1)
	s.write("cold.hcl", cold)
	r = s.must(0, 4*time.Minute, "run", "cold.hcl")
	if !strings.Contains(r.stderr, "Machines are booted before each run") || !strings.Contains(r.stderr, `director.front: it has boot = "cold"`) {
		t.Errorf("no warning: %s", r)
	}
	a = s.latest("cutoff")
	list := renewedOf(t, a, a.Runs()[0].RunID)
	if len(list) != 1 || list[0].Template != "" || list[0].BootID == "" || !a.Runs()[0].Valid {
		t.Errorf("a director that was to be booted: %+v, %+v", list, a.Runs())
	}
}

// killedWithoutDirector starts runs and kills lvslab when the state holds no
// sound director, after the first run.
func (s *site) killedWithoutDirector() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd, out, errOut := s.command(ctx, "apply", "--auto-approve", "-var", "blocks=40", "lab.hcl")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	killed := false
	for ctx.Err() == nil && !killed {
		time.Sleep(5 * time.Millisecond)
		rows, _ := filepath.Glob(filepath.Join(s.dir, "results", "*", "*.partial", "raw", "*", "renewed.json"))
		if len(rows) > 0 && s.withoutDirector() {
			killed = true
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		s.t.Error(err)
	}
	_ = cmd.Wait()
	if !killed {
		s.t.Fatalf("the director was there all the time\n%s\n%s", out, errOut)
	}
	partial, _ := filepath.Glob(filepath.Join(s.dir, "results", "*", "*.partial"))
	for _, dir := range partial {
		if err := os.RemoveAll(dir); err != nil {
			s.t.Error(err)
		}
	}
}

func (s *site) withoutDirector() bool {
	st, err := state.Read(filepath.Join(s.dir, ".lvslab", "cutoff"))
	if err != nil {
		return false
	}
	sound := func(r state.Resource) bool { return r.Addr.String() == "director.front/domain" && r.Status == state.OK }
	return !slices.ContainsFunc(st.Resources, sound)
}
