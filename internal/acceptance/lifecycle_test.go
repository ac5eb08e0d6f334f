package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
)

// small is the least lab that forwards a query: three machines.
func small(lab, prefix, rest string) string {
	return strings.NewReplacer("@LAB", lab, "@P", prefix).Replace(`
lab "@LAB" {
  teardown = "on-success"
}

variable "weight" {
  type    = number
  default = 1
}

network "wire" { cidr = "@P.0/24" }

client "probe" {
  nic { network = network.wire }
}

director "front" {
  nic { network = network.wire }
}

backend "web" {
  nic { network = network.wire }
  serves = [zone.z]
}

zone "z" {
  name    = "small.test"
  records = [for i in range(20) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "up" {
  from = director.front
  to   = backend.web
  type = "ipip"
}

service "s" {
  director  = director.front
  vip       = "@P.101"
  port      = 53
  protocol  = "udp"
  scheduler = "rr"
  forward   = "tunnel"
  real_server {
    backends = backend.web
    tunnel   = tunnel.up
    weight   = var.weight
  }
}
`) + rest
}

const study = `
experiment "load" {
  service    = service.s
  clients    = client.probe
  iterations = 40
  seed       = 3
  factor "scheduler" { values = ["rr", "sed"] }
  load "dnsperf" { queries = 200 }
}

output "answers" { value = experiment.load.answers_ok }
`

// TestAccLifecycle is a lab without an experiment: it stays up, is changed in
// place, found out when somebody meddles with it, and goes without a trace.
func TestAccLifecycle(t *testing.T) {
	s := newSite(t, small("life", "198.19.8", ""))
	s.must(0, 4*time.Minute, "apply", "lab.hcl")

	if r := s.must(0, time.Minute, "apply", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to do") {
		t.Errorf("a second apply is not quiet: %s", r)
	}
	// The path as a client sees it.
	r := s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.8.101", "n7.small.test")
	if strings.TrimSpace(r.stdout) != "192.0.2.7" {
		t.Errorf("answer under the VIP: %s", r)
	}
	r = s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.8.101", "id.server", "CH", "TXT")
	if strings.TrimSpace(r.stdout) != `"backend.web"` {
		t.Errorf("identity of the backend: %s", r)
	}
	// The command's own exit code comes through.
	s.must(7, time.Minute, "exec", "backend.web", "--", "sh", "-c", "exit 7")

	useTools(t, s)

	// A weight is an update of one service, not a new machine.
	r = s.must(2, time.Minute, "plan", "--detailed-exitcode", "-var", "weight=5", "lab.hcl")
	if !strings.Contains(r.stdout, "0 to create, 1 to change, 0 to replace, 0 to delete") {
		t.Errorf("plan of a changed weight: %s", r)
	}
	s.must(0, time.Minute, "apply", "-var", "weight=5", "lab.hcl")
	r = s.must(0, time.Minute, "exec", "director.front", "--", "ipvsadm", "-Sn")
	if !strings.Contains(r.stdout, "-w 5") {
		t.Errorf("the weight did not arrive: %s", r)
	}

	// Somebody meddles: seen, named, repaired.
	s.must(0, time.Minute, "exec", "backend.web", "--", "ip", "link", "del", "dev", "up")
	r = s.must(2, time.Minute, "plan", "--detailed-exitcode", "-var", "weight=5", "lab.hcl")
	if !strings.Contains(r.stdout, `tunnel.up["backend.web"]/tunnel will be created`) {
		t.Errorf("a deleted tunnel was not found: %s", r)
	}
	s.must(0, time.Minute, "apply", "-var", "weight=5", "lab.hcl")
	s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.8.101", "n7.small.test")

	if r := s.must(0, time.Minute, "logs", "backend.web"); !strings.Contains(r.stdout, "lvslab-agent") {
		t.Errorf("console: %s", r)
	}
	s.must(1, time.Minute, "exec", "backend.web[3]", "--", "true")
	// Without a terminal there is nobody to ask.
	if r := s.must(1, time.Minute, "destroy"); !strings.Contains(r.stderr, "--auto-approve") {
		t.Errorf("destroy without a terminal: %s", r)
	}
	if r := s.must(0, time.Minute, "destroy", "--auto-approve"); r.took > 20*time.Second {
		t.Errorf("destroy took %s", r.took)
	}
	s.must(1, time.Minute, "exec", "backend.web", "--", "true")
	if r := s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl"); !strings.Contains(r.stdout, "Nothing to destroy") {
		t.Errorf("second destroy: %s", r)
	}
}

// TestAccExecDuringRuns works with a node while an experiment runs, interrupts
// the study, finds the lab kept and the data too, continues the study on it, and
// adds a block.
func TestAccExecDuringRunsAndInterrupt(t *testing.T) {
	s := newSite(t, small("busy", "198.19.9", strings.Replace(study, "iterations = 40", "iterations = var.blocks", 1)+blocks))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd, out, errOut := s.command(ctx, "apply", "lab.hcl")
	var mu sync.Mutex
	seen := &watcher{mu: &mu, buf: out}
	cmd.Stdout = seen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen.await(t, "3/80", 4*time.Minute)
	r := s.must(0, time.Minute, "exec", "director.front", "--", "ipvsadm", "-Ln")
	if !strings.Contains(r.stdout, "198.19.9.101:53") {
		t.Errorf("exec during a run: %s", r)
	}
	// Looking at the lab reads its name servers, and no run counts that as a query:
	// the runs are judged below.
	s.must(0, time.Minute, "plan", "--keep", "lab.hcl")
	// The lab's lock is held: a second apply says by whom.
	if r := s.must(1, time.Minute, "apply", "lab.hcl"); !strings.Contains(r.stderr, "another process works on this lab") {
		t.Errorf("second apply: %s", r)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Fatalf("interrupted apply ended with %v\n%s\n%s", err, out, errOut)
	}
	partial, _ := filepath.Glob(filepath.Join(s.dir, "results", "busy", "*.partial"))
	if len(partial) != 1 {
		t.Fatalf("partial results: %v", partial)
	}
	a, err := artifact.Open(partial[0])
	if err != nil || len(a.Runs()) < 3 {
		t.Fatalf("partial result: %v, %d runs", err, len(a.Runs()))
	}
	for _, r := range a.Runs() {
		if !r.Valid || r.AnswersOK != 200 {
			t.Errorf("run %s: valid %v, %d answers", r.RunID, r.Valid, r.AnswersOK)
		}
	}
	// The policy on-success keeps an interrupted lab; its service was given back.
	r = s.must(0, time.Minute, "exec", "director.front", "--", "ipvsadm", "-Sn")
	if !strings.Contains(r.stdout, "-s rr") {
		t.Errorf("the service was not given back: %s", r)
	}
	r = s.must(0, time.Minute, "plan", "--keep", "lab.hcl")
	if !strings.Contains(r.stdout, "No changes") {
		t.Errorf("plan after an interrupt: %s", r)
	}
	s.continued(t, a)
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
}

// blocks makes the number of blocks of a study a variable.
const blocks = `
variable "blocks" {
  type    = number
  default = 40
}
`

// continued continues an interrupted study on the lab that was kept, with two blocks
// more than it has, and then adds another one to the sealed result.
func (s *site) continued(t *testing.T, before *artifact.Artifact) {
	t.Helper()
	n := len(before.Runs())
	blocks := n/2 + 2
	r := s.must(0, 3*time.Minute, "apply", "--keep", "-var", fmt.Sprint("blocks=", blocks), "lab.hcl")
	if want := fmt.Sprintf("Trials: %d of %d runs pending, continuing %s.", 2*blocks-n, 2*blocks, filepath.Join("results", "busy", filepath.Base(before.Dir()))); !strings.Contains(r.stdout, want) {
		t.Errorf("%q is not in the plan: %s", want, r)
	}
	a := s.latest("busy")
	if whole := strings.TrimSuffix(before.Dir(), artifact.PartialSuffix); a.Dir() != whole || len(a.Runs()) != 2*blocks || len(a.Manifest().Sessions) != 2 {
		t.Errorf("%s: %d runs, sessions %+v", a.Dir(), len(a.Runs()), a.Manifest().Sessions)
	}
	for i, r := range before.Runs() {
		if !reflect.DeepEqual(a.Runs()[i], r) {
			t.Errorf("run %s was made again", r.RunID)
		}
	}
	r = s.must(0, 4*time.Minute, "apply", "-var", fmt.Sprint("blocks=", blocks+1), "lab.hcl")
	if want := fmt.Sprintf("Trials: 2 runs pending, added to the %d of %s", 2*blocks, filepath.Join("results", "busy", filepath.Base(a.Dir()))); !strings.Contains(r.stdout, want) {
		t.Errorf("the plan of one block more: %s", r)
	}
	if p := s.latest("busy").Manifest().Parent; p.Name() != filepath.Base(a.Dir()) {
		t.Errorf("parent %+v", p)
	}
	if r := s.must(0, time.Minute, "output", "--raw", "answers"); strings.TrimSpace(r.stdout) != fmt.Sprint(400*(blocks+1)) {
		t.Errorf("answers over both results: %s", r)
	}
	if r := s.must(0, time.Minute, "verify", "results/busy/latest"); !strings.Contains(r.stdout, fmt.Sprintf("%d runs ", 2*blocks+2)) {
		t.Errorf("verify of both results: %s", r)
	}
}

// TestAccTwoLabs runs two studies at once on one machine: neither disturbs the
// other's counts.
func TestAccTwoLabs(t *testing.T) {
	short := strings.Replace(study, "iterations = 40", "iterations = 2", 1)
	a := newSite(t, small("left", "198.19.11", short))
	b := newSite(t, small("right", "198.19.11", short)) // even the addresses are the same
	var wg sync.WaitGroup
	for _, s := range []*site{a, b} {
		wg.Go(func() {
			if r := s.run(8*time.Minute, "apply", "lab.hcl"); r.code != 0 {
				t.Errorf("apply: %s", r)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for name, s := range map[string]*site{"left": a, "right": b} {
		rows := byRun(s.latest(name).Backends())
		for _, r := range s.latest(name).Runs() {
			countsAgree(t, r, rows[r.RunID])
		}
		if r := s.must(0, time.Minute, "output", "--raw", "answers"); strings.TrimSpace(r.stdout) != "800" {
			t.Errorf("output of %s: %s", name, r)
		}
	}
}

// watcher lets a test wait for a text in a command's output.
type watcher struct {
	mu  *sync.Mutex
	buf *bytes.Buffer
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *watcher) await(t *testing.T, text string, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		w.mu.Lock()
		found := strings.Contains(w.buf.String(), text)
		w.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("%q did not appear in %s:\n%s", text, limit, w.buf)
}

func holderPID(t *testing.T, s *site) int {
	t.Helper()
	pid := s.holder()
	if pid == 0 {
		t.Fatal("no holder in the state")
	}
	return pid
}
