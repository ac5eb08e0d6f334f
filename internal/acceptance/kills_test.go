package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// kill9 is one kill: what is killed, when, and what the user does next.
type kill9 struct {
	file   string        // the topology that is being applied
	holder bool          // the hypervisor's process, and not the command
	after  time.Duration // since the command's start; of a holder: since its own
	next   string        // destroy, apply or sweep
}

func (k kill9) String() string {
	what := "command"
	if k.holder {
		what = "holder"
	}
	return fmt.Sprintf("%s, %s killed after %.2f s, then %s", k.file, what, k.after.Seconds(), k.next)
}

// seven are the moments of a study's apply that every release must survive.
var seven = []time.Duration{300 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second, 4 * time.Second,
	7 * time.Second, 11 * time.Second, 16 * time.Second}

// killsFor returns the kills of this test run: four of a small lab, or with
// LVSLAB_SOAK=N that many at random moments after the seven of the study.
func killsFor(t *testing.T) []kill9 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LVSLAB_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("LVSLAB_SEED: %v", err)
		}
	}
	t.Logf("LVSLAB_SEED=%d repeats these moments", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	moment := func(until float64) time.Duration {
		return time.Duration((0.1 + (until-0.1)*rnd.Float64()) * float64(time.Second))
	}
	n := 4
	var list []kill9
	if text := os.Getenv("LVSLAB_SOAK"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("LVSLAB_SOAK: %v", err)
		}
		for i, after := range seven {
			list = append(list, kill9{file: "study.hcl", after: after, next: []string{"destroy", "sweep"}[i%2]})
		}
	}
	next := []string{"apply", "destroy", "sweep", "apply", "destroy"}
	for i := range n {
		list = append(list, kill9{file: "lab.hcl", holder: i%4 == 3, after: moment(6), next: next[i%len(next)]})
	}
	return list
}

// TestAccKills ends lvslab or the lab's hypervisor with SIGKILL at random
// moments. Whatever comes next, destroy, apply and destroy, or sweep without
// any state, nothing is left.
func TestAccKills(t *testing.T) {
	s := newSite(t, small("killed", "198.19.10", ""))
	text, err := os.ReadFile("../../topologies/lvs-tun-dns.hcl")
	if err != nil {
		t.Fatal(err)
	}
	s.write("study.hcl", string(text))
	s.isolate()
	for i, k := range killsFor(t) {
		began := time.Now()
		seen := s.killOne(k)
		switch k.next {
		case "sweep":
			if err := os.RemoveAll(filepath.Join(s.dir, ".lvslab")); err != nil {
				t.Fatal(err)
			}
			s.must(0, time.Minute, "sweep", "--auto-approve")
		case "apply":
			s.must(0, 4*time.Minute, "apply", "--auto-approve", k.file)
			seen = append(seen, s.namespaces()...)
			fallthrough
		default:
			s.must(0, time.Minute, "destroy", "--auto-approve", k.file)
		}
		if left := s.remains(seen); len(left) > 0 {
			t.Fatalf("kill %d (%s) left:\n%s", i+1, k, strings.Join(left, "\n"))
		}
		t.Logf("kill %d: %s: nothing left, %.1f s", i+1, k, time.Since(began).Seconds())
	}
}

// isolate gives the site's commands a registry, a cache and a directory for
// temporary files of their own, so that what is left there is theirs.
func (s *site) isolate() {
	s.t.Helper()
	s.t.(*testing.T).Setenv("LVSLAB_CACHE", linkedCache(s.t))
	for name, dir := range map[string]string{"LVSLAB_REGISTRY": "registry", "TMPDIR": "tmp"} {
		path := filepath.Join(s.t.TempDir(), dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			s.t.Fatal(err)
		}
		s.t.(*testing.T).Setenv(name, path)
	}
}

// linkedCache is a copy of the cache that takes no room where links do.
func linkedCache(t testing.TB) string {
	t.Helper()
	from, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(from, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another lab's, that has gone meanwhile
			return nil
		case err != nil || rerr != nil:
			return errors.Join(err, rerr)
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && rel != ".":
			return fs.SkipDir // somebody is making it
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case filepath.Ext(path) == ".lock" || !d.Type().IsRegular():
			return nil
		}
		if os.Link(path, filepath.Join(to, rel)) == nil {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// killOne starts an apply, carries out the kill, and returns the namespaces
// that the lab had by then.
func (s *site) killOne(k kill9) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd, out, errOut := s.command(ctx, "apply", "--auto-approve", k.file)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var seen []string
	if k.holder {
		pid := s.awaitHolder()
		time.Sleep(k.after)
		seen = s.namespaces()
		// It may have ended by itself: a template's hypervisor does.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			s.t.Fatal(err)
		}
	} else {
		time.Sleep(k.after)
		seen = s.namespaces()
		if err := cmd.Process.Kill(); err != nil && err != os.ErrProcessDone {
			s.t.Fatal(err)
		}
	}
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); k.holder && code != 0 && code != 1 {
		s.t.Errorf("%s: apply ended with %d\n%s\n%s", k, code, out, errOut)
	}
	return append(seen, s.namespaces()...)
}

// awaitHolder waits for a hypervisor of this site and returns its process id.
func (s *site) awaitHolder() int {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if list, err := hypervisor.List(context.Background()); err == nil {
			for _, e := range list {
				if e.PID > 0 && e.Status == hypervisor.Running {
					return e.PID
				}
			}
		}
	}
	s.t.Fatal("no hypervisor was started")
	return 0
}

// namespaces returns the process namespaces of the site's hypervisors that
// live now: whatever a lab runs is in its holder's. They are kept open for the
// rest of the test, because the kernel uses a namespace's number again.
func (s *site) namespaces() []string {
	s.t.Helper()
	list, err := hypervisor.List(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []string
	for _, e := range list {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", e.PID))
		if err != nil {
			continue // it has ended
		}
		s.t.Cleanup(func() { f.Close() })
		ns, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err == nil && ns != own {
			found = append(found, ns)
		}
	}
	return found
}

// remains lists what is left of the site's labs when they should be gone:
// processes, namespaces, registry entries, temporary files, pipes and sockets,
// resources and open intents in a state.
func (s *site) remains(namespaces []string) []string {
	s.t.Helper()
	left := s.own()
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		if ns, err := os.Readlink(link); err == nil && slices.Contains(namespaces, ns) && !ended(filepath.Dir(filepath.Dir(link))) {
			comm, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "../comm"))
			left = append(left, fmt.Sprintf("process %s (%s) in namespace %s", strings.Split(link, "/")[2], strings.TrimSpace(string(comm)), ns))
		}
	}
	for _, pattern := range []string{"$LVSLAB_REGISTRY/*", "$TMPDIR/*", "$LVSLAB_CACHE/.*", "$LVSLAB_CACHE/*/.*"} {
		found, _ := filepath.Glob(os.ExpandEnv(pattern))
		left = append(left, found...)
	}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	states, _ := filepath.Glob(filepath.Join(s.dir, ".lvslab", "*"))
	for _, dir := range states {
		left = append(left, unfinished(dir)...)
	}
	return left
}

// unfinished lists what a state still holds.
func unfinished(dir string) []string {
	var left []string
	st, err := state.Read(dir)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", dir, err)}
	}
	for _, r := range st.Resources {
		left = append(left, "resource "+r.Addr.String())
	}
	if len(st.Hypervisor) > 0 {
		left = append(left, "hypervisor "+string(st.Hypervisor))
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range found {
		switch name := filepath.Base(f); name {
		case "state.json", "journal.jsonl", "lock", "holder.log", "console", "backups":
		default:
			left = append(left, f)
		}
	}
	return left
}

// ended reports whether a process only waits to be reaped by whoever inherited
// it from the killed command: state Z or X, field 3 of /proc/PID/stat.
func ended(proc string) bool {
	text, err := os.ReadFile(filepath.Join(proc, "stat"))
	_, after, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}
