package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// namedProcess is one running named and what it has logged.
type namedProcess struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and its log is complete

	mu      sync.Mutex
	lines   []string      // without the time
	grown   chan struct{} // closed and replaced with every line
	version string
}

var errNamedEnded = errors.New("named ended")

// startNamed runs named in the foreground with its log on stderr, whatever the
// configuration says about logging (-g), in a UTS namespace of its own (addTo
// says why). The process ends with life.
func startNamed(life context.Context) (*namedProcess, error) {
	path, err := lookPath("named")
	if err != nil {
		return nil, err
	}
	p := &namedProcess{exited: make(chan struct{}), grown: make(chan struct{})}
	p.cmd = exec.CommandContext(life, path, "-g", "-u", "bind", "-n", "1", "-c", namedDir+"/named.conf")
	p.cmd.Env = environment()
	p.cmd.Dir = namedDir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWUTS}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.follow(stderr)
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// logTime is how named begins a line: 02-Dec-2026 01:35:04.185.
var logTime = regexp.MustCompile(`^\d\d-\w{3}-\d{4} \d\d:\d\d:\d\d\.\d{3} `)

var namedVersion = regexp.MustCompile(`^starting BIND (\d+(?:\.\d+)*)`)

// follow keeps the log in memory and in a file for people. Without query
// logging it is short: some 60 lines for a start.
func (p *namedProcess) follow(r io.Reader) {
	file, err := os.OpenFile(namedLogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		defer file.Close()
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if file != nil {
			_, _ = file.WriteString(lines.Text() + "\n")
		}
		p.add(logTime.ReplaceAllString(lines.Text(), ""))
	}
}

func (p *namedProcess) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	if m := namedVersion.FindStringSubmatch(line); m != nil {
		p.version = m[1]
	}
	close(p.grown)
	p.grown = make(chan struct{})
}

// mark is the place in the log from which await reads.
func (p *namedProcess) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

// reloadFailed begins the last line of a reload that changed nothing.
const reloadFailed = "reloading configuration failed"

// await waits until named says that it is running, at the end of a start and of
// a reload, and what has become of each of the zones (a reload loads them after
// it has said so), or that a reload has failed. It returns the lines since the
// mark, also with an error.
func (p *namedProcess) await(ctx context.Context, mark int, zones []string) ([]string, error) {
	for {
		p.mu.Lock()
		lines, grown := p.lines[mark:], p.grown
		p.mu.Unlock()
		if loaded(lines, zones) {
			return lines, nil
		}
		select {
		case <-grown:
		case <-p.exited:
			return lines, fmt.Errorf("%w: %s", errNamedEnded, reasonOfEnd(lines))
		case <-ctx.Done():
			return lines, fmt.Errorf("named is not running yet: %w", ctx.Err())
		}
	}
}

// loaded reports whether the lines hold the end of a start or reload.
func loaded(lines, zones []string) bool {
	running, settled := false, 0
	for _, l := range lines {
		if strings.HasPrefix(l, reloadFailed) {
			return true
		}
		running = running || l == "running"
		for _, z := range zones {
			text, about := strings.CutPrefix(l, zoneLine(z))
			if about && (strings.HasPrefix(text, zoneLoaded) || strings.HasPrefix(text, zoneRefused)) {
				settled++
			}
		}
	}
	return running && settled >= len(zones)
}

// reasonOfEnd picks the lines that say why: those about the configuration, else
// the last ones.
func reasonOfEnd(lines []string) string {
	var why []string
	for _, l := range lines {
		if strings.Contains(l, "named.conf:") {
			why = append(why, l)
		}
	}
	if len(why) == 0 {
		why = lines[max(0, len(lines)-3):]
	}
	return strings.Join(why, "; ")
}

// grep returns the log's lines that contain the text.
func (p *namedProcess) grep(text string) []string {
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

func (p *namedProcess) versionText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

func (p *namedProcess) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stopWithin is how long named may take to end by itself: 0.1 s measured.
const stopWithin = 3 * time.Second

func (p *namedProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}
