package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/plan/state"
)

// needLab skips tests that boot machines unless they are asked for.
func needLab(t testing.TB) {
	t.Helper()
	vmtest.Need(t)
	if _, err := os.Stat(program(t)); err != nil {
		t.Fatalf("%v: run make build first", err)
	}
}

func program(t testing.TB) string {
	t.Helper()
	abs, err := filepath.Abs("../../bin/lvslab")
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// site is a working directory with a topology in it, as a user has it.
type site struct {
	t   testing.TB
	dir string
	// netns, when not 0, is the process in whose network namespace lvslab runs.
	netns int
}

// newSite makes a directory with the topology lab.hcl, and checks at the end of
// the test that nothing of the lab is left on the machine.
func newSite(t testing.TB, topology string) *site {
	t.Helper()
	needLab(t)
	before := traces(t)
	s := &site{t: t, dir: t.TempDir()}
	s.write("lab.hcl", topology)
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		s.run(time.Minute, "destroy", "--auto-approve", "lab.hcl")
		for _, x := range append(subtract(traces(t), before), s.own()...) {
			t.Errorf("left behind: %s", x)
		}
		s.onlyKnownFiles()
	})
	return s
}

func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// result is one finished command.
type result struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("exit %d after %.1f s\n--- stdout\n%s\n--- stderr\n%s", r.code, r.took.Seconds(), r.stdout, r.stderr)
}

// command prepares lvslab in the site's directory.
func (s *site) command(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, program(s.t), args...)
	if s.netns != 0 {
		cmd = inNetns(ctx, s.netns, program(s.t), args)
	}
	cmd.Dir = s.dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	return cmd, &out, &errOut
}

// start starts lvslab; it is killed at the end of the test when it still runs.
func (s *site) start(args ...string) (cmd *exec.Cmd, out, errOut *watcher) {
	s.t.Helper()
	cmd, stdout, stderr := s.command(s.t.Context(), args...)
	out, errOut = &watcher{mu: &sync.Mutex{}, buf: stdout}, &watcher{mu: &sync.Mutex{}, buf: stderr}
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return cmd, out, errOut
}

// poll looks until it finds something.
func poll(t testing.TB, limit time.Duration, what string, look func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !look(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within %s: %s", limit, what)
		}
	}
}

// run runs lvslab to its end.
func (s *site) run(limit time.Duration, args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd, out, errOut := s.command(ctx, args...)
	began := time.Now()
	err := cmd.Run()
	r := result{stdout: out.String(), stderr: errOut.String(), took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	default:
		s.t.Fatalf("lvslab %s: %v", strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		s.t.Fatalf("lvslab %s did not end in %s\n%s", strings.Join(args, " "), limit, r)
	}
	return r
}

// must runs lvslab and demands an exit code.
func (s *site) must(code int, limit time.Duration, args ...string) result {
	s.t.Helper()
	r := s.run(limit, args...)
	if r.code != code {
		s.t.Fatalf("lvslab %s: want exit %d, got %s", strings.Join(args, " "), code, r)
	}
	return r
}

// latest opens the newest artifact of a lab.
func (s *site) latest(lab string) *artifact.Artifact {
	s.t.Helper()
	dir := filepath.Join(s.dir, "results", lab, "latest")
	a, err := artifact.Open(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	problems, err := artifact.Verify(context.Background(), dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range problems {
		s.t.Errorf("artifact: %s", p)
	}
	return a
}

// dump shows what helps to understand a failure.
func (s *site) dump() {
	matches, _ := filepath.Glob(filepath.Join(s.dir, ".lvslab", "*", "*.log"))
	consoles, _ := filepath.Glob(filepath.Join(s.dir, ".lvslab", "*", "console", "*.log"))
	notes, _ := filepath.Glob(filepath.Join(s.dir, "results", "*", "*", "raw", "*", "notes.txt")) // of what was odd in a run
	for _, f := range slices.Concat(matches, consoles, notes) {
		b, _ := os.ReadFile(f)
		if len(b) > 3000 {
			b = b[len(b)-3000:]
		}
		s.t.Logf("--- %s\n%s", f, b)
	}
}

// onlyKnownFiles checks that a lab that was destroyed leaves its state, its
// logs and its results, and nothing else.
func (s *site) onlyKnownFiles() {
	filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.dir, path)
		switch {
		case err != nil || d.IsDir():
		case strings.HasPrefix(rel, "results/"), strings.HasSuffix(rel, ".hcl"):
		case strings.Contains(rel, ".lvslab/") && known(filepath.Base(rel), rel):
		default:
			s.t.Errorf("left behind: file %s", rel)
		}
		return nil
	})
}

func known(base, rel string) bool {
	return base == "state.json" || base == "journal.jsonl" || base == "lock" || base == "holder.log" ||
		strings.Contains(rel, "/backups/") || strings.Contains(rel, "/console/")
}

// traces lists what labs could leave on the machine: links, named network
// namespaces, mounts.
func traces(t testing.TB) []string {
	t.Helper()
	var list []string
	for what, pattern := range map[string]string{"link ": "/sys/class/net/*", "namespace ": "/run/netns/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			list = append(list, what+filepath.Base(f))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(l); len(f) > 4 {
			list = append(list, "mount "+f[4])
		}
	}
	sort.Strings(list)
	return list
}

// marks are what this site's labs can be known by: its directory, a lab's
// lineage, and the tag that all names derive from.
func (s *site) marks() []string {
	marks := []string{s.dir}
	states, _ := filepath.Glob(filepath.Join(s.dir, ".lvslab", "*"))
	for _, dir := range states {
		if st, err := state.Read(dir); err == nil {
			marks = append(marks, st.Lineage, "lvslab-"+topo.Tag(st.Lineage))
		}
	}
	return marks
}

// processes maps the processes of this site's labs to their command lines.
func (s *site) processes() map[int]string {
	s.t.Helper()
	found := map[int]string{}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		s.t.Fatal(err)
	}
	marks := s.marks()
	for _, p := range procs {
		pid, err := strconv.Atoi(strings.Split(p, "/")[2])
		b, rerr := os.ReadFile(p)
		if err != nil || rerr != nil || pid == os.Getpid() {
			continue // it has ended meanwhile
		}
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(line, m) }) {
			found[pid] = line
		}
	}
	return found
}

// pids returns the processes whose command line holds all the texts.
func (s *site) pids(texts ...string) []int {
	var out []int
	for pid, line := range s.processes() {
		if !slices.ContainsFunc(texts, func(x string) bool { return !strings.Contains(line, x) }) {
			out = append(out, pid)
		}
	}
	return out
}

// own lists the processes and registry entries of this site's labs.
func (s *site) own() []string {
	s.t.Helper()
	var list []string
	for pid, line := range s.processes() {
		list = append(list, fmt.Sprintf("process %d %s", pid, line[:min(len(line), 300)]))
	}
	entries, err := filepath.Glob(filepath.Join(filepath.Dir(hypervisor.RegistryDir()), "*", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	marks := s.marks()
	for _, e := range entries {
		b, _ := os.ReadFile(e)
		if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(e+string(b), m) }) {
			list = append(list, "registry entry "+e)
		}
	}
	return list
}

func subtract(a, b []string) []string {
	have := map[string]int{}
	for _, x := range b {
		have[x]++
	}
	var out []string
	for _, x := range a {
		if have[x]--; have[x] < 0 {
			out = append(out, x)
		}
	}
	return out
}
