package acceptance

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/plan/state"
)

// moment is a point in the life of a lab at which a command is interrupted.
type moment struct {
	name  string
	args  []string
	await string // the command has printed this
	code  []int  // what it may end with
	says  string // in what it prints, when it has a terminal to print to
	// after is how long to wait then, some tens of milliseconds when 0.
	after time.Duration
	twice bool
}

var moments = []moment{
	{"while creating", []string{"apply", "--auto-approve", "lab.hcl"}, "hypervisor  ", []int{130}, "lvslab destroy lab.hcl", 0, false},
	{"while configuring", []string{"apply", "--auto-approve", "lab.hcl"}, "create      ", []int{130}, "lvslab destroy lab.hcl", 0, false},
	{"during runs", []string{"apply", "--auto-approve", "lab.hcl"}, " ok ", []int{130}, "What was measured is in", 0, false},
	{"during destroy", []string{"destroy", "--auto-approve", "--lock-timeout", "5s", "lab.hcl"}, "", []int{130, 0}, "", 0, false},
}

// ways of interrupting; the last one closes the terminal.
var ways = []string{"SIGINT", "SIGTERM", "SIGHUP", "closed terminal"}

// TestAccSignals interrupts commands once, with each kind of moment and each way:
// they end in good order, the state knows all that exists and has nothing in
// doubt, and the next command leaves what it should.
func TestAccSignals(t *testing.T) {
	s := newSite(t, small("bothered", "198.19.32", matrix("long", "flush", 30, `"rr"`, "1, 20")))
	s.isolate()
	first := rand.IntN(len(ways))
	for i, m := range []moment{moments[0], moments[3], moments[1], moments[2], moments[3], moments[0], moments[2]} {
		way := ways[(first+i)%len(ways)]
		what := fmt.Sprintf("%s %s", way, m.name)
		if m.args[0] == "destroy" { // of a lab that is left from the moment before, or made
			if st, err := s.bothered(); err != nil || len(st.Resources) == 0 {
				s.must(0, 2*time.Minute, "apply", "--keep", "--target", "client.probe", "lab.hcl")
			}
			m.after = time.Duration(1+rand.IntN(30)) * time.Millisecond // it is quick
		}
		began := time.Now()
		r := s.interrupt(m, way)
		seen := s.namespaces()
		if ok := r.code == m.code[0] || len(m.code) > 1 && r.code == m.code[1]; !ok || r.took > 20*time.Second {
			t.Errorf("%s: %s", what, r)
		}
		if text := r.stdout + r.stderr; way != ways[3] && !strings.Contains(text, m.says) {
			t.Errorf("%s: %q is not said: %s", what, m.says, r)
		}
		st, err := s.bothered()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, res := range st.Resources {
			if res.Status != state.OK || len(res.Half) > 0 {
				t.Errorf("%s: %s is %q", what, res.Addr, res.Status)
			}
		}
		if i%3 == 0 { // the next apply goes on from there, the next destroy follows at once else
			s.must(0, 2*time.Minute, "apply", "--keep", "--auto-approve", "--target", "service.s", "lab.hcl")
		}
		if m.args[0] != "destroy" || i%2 == 0 {
			s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
			if left := s.remains(append(seen, s.namespaces()...)); len(left) > 0 {
				t.Fatalf("%s left:\n%s", what, strings.Join(left, "\n"))
			}
		}
		t.Logf("%s: exit %d after %.1f s, %d resources, then %.1f s", what, r.code, r.took.Seconds(), len(st.Resources), time.Since(began).Seconds())
	}
}

// TestAccSignalSoak interrupts applies at random moments from the first
// instruction on, where templates are still to be made, once and twice.
func TestAccSignalSoak(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("LVSLAB_SOAK"), "3"))
	if err != nil {
		t.Fatalf("LVSLAB_SOAK: %v", err)
	}
	s := newSite(t, small("bothered", "198.19.32", matrix("long", "flush", 30, `"rr"`, "1, 20")))
	s.isolate()
	for i := range n {
		if i%4 == 0 {
			if err := os.RemoveAll(os.ExpandEnv("$LVSLAB_CACHE/templates")); err != nil {
				t.Fatal(err)
			}
		}
		m := moment{args: moments[0].args, after: time.Duration(rand.IntN(9000)) * time.Millisecond, twice: i%2 == 1}
		way := ways[rand.IntN(len(ways))]
		r := s.interrupt(m, way)
		seen := s.namespaces()
		what := fmt.Sprintf("%s after %s, twice %t", way, m.after, m.twice)
		if r.code != 130 || r.took > 20*time.Second || m.twice && r.took > 10*time.Second {
			t.Errorf("%s: %s", what, r)
		}
		if i%3 == 0 {
			s.must(0, 2*time.Minute, "apply", "--keep", "--auto-approve", "--target", "service.s", "lab.hcl")
		}
		s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
		if left := s.remains(append(seen, s.namespaces()...)); len(left) > 0 {
			t.Fatalf("%s left:\n%s", what, strings.Join(left, "\n"))
		}
		t.Logf("%s: ended after %.1f s", what, r.took.Seconds())
	}
}

func (s *site) bothered() (state.State, error) {
	return state.Read(s.dir + "/.lvslab/bothered")
}

// interrupt starts the command on a terminal of its own, awaits the moment, and
// interrupts it; took is the time from there to its end.
func (s *site) interrupt(m moment, way string) result {
	s.t.Helper()
	master, slave := terminal(s.t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd, _, _ := s.command(ctx, m.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	slave.Close()
	w := &watcher{mu: &sync.Mutex{}, buf: &bytes.Buffer{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(w, master) // until the terminal's other side is closed: EIO
	}()
	if m.args[0] == "destroy" { // it says nothing before it is done
		poll(s.t, 10*time.Second, "destroy does not take the lab's lock", func() bool {
			_, held, err := state.Held(s.dir + "/.lvslab/bothered")
			return held || err != nil
		})
	}
	if m.await != "" {
		w.await(s.t.(*testing.T), m.await, 2*time.Minute)
	}
	time.Sleep(cmp.Or(m.after, time.Duration(20+rand.IntN(100))*time.Millisecond))
	began := time.Now()
	switch signals := map[string]os.Signal{"SIGINT": os.Interrupt, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP}; way {
	case "SIGINT": // as the terminal sends it: to its whole foreground group
		if _, err := master.Write([]byte{3}); err != nil {
			s.t.Error(err)
		}
	case ways[3]:
		master.Close()
	default:
		if err := cmd.Process.Signal(signals[way]); err != nil {
			s.t.Error(err)
		}
	}
	if m.twice {
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	_ = cmd.Wait() // the code tells
	took := time.Since(began)
	<-read
	master.Close()
	return result{code: cmd.ProcessState.ExitCode(), stdout: w.String(), took: took}
}

// terminal opens a pseudo-terminal (pty(7)). The master must be one that the
// runtime polls, so that closing it ends a read.
func terminal(t testing.TB) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestAccGuestGoesDown: a guest that goes down under a command, by itself or by
// that command, ends it; the plan knows that its settings are gone.
func TestAccGuestGoesDown(t *testing.T) {
	s := newSite(t, clients("fallen", "198.19.33", 2))
	s.must(0, 2*time.Minute, "apply", "lab.hcl")
	for node, c := range map[string]struct{ command, says string }{
		"client.c[0]": {"reboot -f", "it boots again"},
		"client.c[1]": {"echo b > /proc/sysrq-trigger; sleep 60", "it boots again"},
	} {
		r := s.run(time.Minute, "exec", node, "--", "sh", "-c", c.command)
		if r.code != 1 || r.took > 10*time.Second || !strings.Contains(words(r.stderr), c.says) || !strings.Contains(r.stderr, node+" went down") {
			t.Errorf("exec %s %s: %s", node, c.command, r)
		}
		t.Logf("%s: %.1f s", c.command, r.took.Seconds())
	}
	r := s.must(2, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
	if !strings.Contains(r.stdout, "gone with its boot") || strings.Contains(r.stdout, "/domain will be") {
		t.Errorf("plan after two reboots: %s", r)
	}
	s.must(0, 2*time.Minute, "apply", "--auto-approve", "lab.hcl")
	s.must(0, time.Minute, "exec", "client.c[0]", "--", "true")
	s.must(0, time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
}
