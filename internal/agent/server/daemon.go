package server

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemon is one running name server and what it has logged.
type daemon struct {
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{} // closed when it has ended and its log is complete

	mu      sync.Mutex
	lines   []string      // without the time
	grown   chan struct{} // closed and replaced with every line
	version string
}

// daemonProgram is how a name server is run in the foreground with its log on
// stderr.
type daemonProgram struct {
	name    string   // of the program
	args    []string // behind it
	dir     string   // that it runs in
	logFile string   // where its log is kept for people
	// stamp is the time at the beginning of a line, version what names the
	// version; its first group is the number.
	stamp, version *regexp.Regexp
	// hostname is what gethostname(2) tells it, "" for the guest's own.
	hostname string
}

// start runs the program in a process group and a UTS namespace of its own. It
// ends with life.
func (p daemonProgram) start(life context.Context) (*daemon, error) {
	path, err := lookPath(p.name)
	if err != nil {
		return nil, err
	}
	d := &daemon{started: time.Now(), exited: make(chan struct{}), grown: make(chan struct{})}
	d.cmd = exec.CommandContext(life, path, p.args...)
	d.cmd.Env = environment()
	d.cmd.Dir = p.dir
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.Cancel = d.kill
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := startWithName(d.cmd, p.hostname); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.exited)
		d.follow(stderr, p)
		_ = d.cmd.Wait()
	}()
	return d, nil
}

// startWithName starts a command in a UTS namespace whose host name is set before
// its first instruction: a program that asks for it once does so early.
func startWithName(cmd *exec.Cmd, hostname string) error {
	if hostname == "" {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUTS
		return cmd.Start()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread, in another namespace, ends with its goroutine
		err := unix.Unshare(unix.CLONE_NEWUTS)
		if err == nil {
			err = unix.Sethostname([]byte(hostname))
		}
		if err == nil {
			err = cmd.Start()
		}
		done <- err
	}()
	return <-done
}

// kill ends the program with all processes that it has forked.
func (p *daemon) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// follow keeps the log in memory and in a file for people. Without query
// logging it is short: some 60 lines for a start.
func (p *daemon) follow(r io.Reader, program daemonProgram) {
	file, err := os.OpenFile(program.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		defer file.Close()
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if file != nil {
			_, _ = file.WriteString(lines.Text() + "\n")
		}
		p.add(program.stamp.ReplaceAllString(lines.Text(), ""), program.version)
	}
}

func (p *daemon) add(line string, version *regexp.Regexp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	if m := version.FindStringSubmatch(line); m != nil {
		p.version = m[1]
	}
	close(p.grown)
	p.grown = make(chan struct{})
}

// mark is the place in the log from which await reads.
func (p *daemon) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

// since returns the lines from a mark on.
func (p *daemon) since(mark int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[mark:])
}

// grep returns the log's lines that contain the text.
func (p *daemon) grep(text string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for _, l := range p.lines {
		if strings.Contains(l, text) {
			found = append(found, l)
		}
	}
	return found
}

func (p *daemon) versionText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

func (p *daemon) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stopWithin is how long a name server may take to end by itself: 0.1 s measured
// for named.
const stopWithin = 3 * time.Second

func (p *daemon) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		_ = p.kill()
		<-p.exited
	}
}
