package server

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// session is one "session" channel (RFC 4254, section 6): a command, a shell,
// file transfer, or the stream of typed calls.
type session struct {
	s   *Server
	ch  ssh.Channel
	env []string

	mu      sync.Mutex
	term    *terminal // after pty-req
	process *os.Process
	running sync.WaitGroup
	// begin is what a request has started and what may end the channel. It waits for
	// the answer to the request: a client that sees the end before the answer takes
	// the session for lost.
	begin []func()
}

type terminal struct {
	name string
	size pty.Winsize
	file *os.File // once the process runs
}

// Payloads of RFC 4254: 6.2, 6.7, 6.4, 6.5, 6.9, 6.10.
type (
	ptyRequest struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	windowChange struct{ Columns, Rows, Width, Height uint32 }
	envRequest   struct{ Name, Value string }
	oneString    struct{ Value string }
	exitStatus   struct{ Status uint32 }
	exitSignal   struct {
		Signal     string
		CoreDumped bool
		Error      string
		Language   string
	}
)

// session serves one channel until the client closes it; a process still
// running then is killed with its group.
func (s *Server) session(ctx context.Context, ch ssh.Channel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	n := &session{s: s, ch: ch}
	defer n.running.Wait()
	defer cancel()
	for r := range requests {
		ok := n.request(ctx, r)
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		n.answered()
	}
}

// answered begins what waited for the answer.
func (n *session) answered() {
	for _, f := range n.begin {
		n.running.Go(f)
	}
	n.begin = nil
}

func (n *session) request(ctx context.Context, r *ssh.Request) bool {
	switch r.Type {
	case "pty-req":
		var p ptyRequest
		if ssh.Unmarshal(r.Payload, &p) != nil {
			return false
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.term = &terminal{name: p.Term, size: winsize(p.Columns, p.Rows)}
		return true
	case "window-change":
		var w windowChange
		return ssh.Unmarshal(r.Payload, &w) == nil && n.resize(winsize(w.Columns, w.Rows))
	case "env":
		var e envRequest
		if ssh.Unmarshal(r.Payload, &e) != nil {
			return false
		}
		n.env = append(n.env, e.Name+"="+e.Value)
		return true
	case "signal":
		var sig oneString
		return ssh.Unmarshal(r.Payload, &sig) == nil && n.signal(sig.Value)
	case "shell":
		return n.start(ctx, shellCommand())
	case "exec":
		var c oneString
		return ssh.Unmarshal(r.Payload, &c) == nil && n.start(ctx, command(c.Value))
	case "subsystem":
		var name oneString
		return ssh.Unmarshal(r.Payload, &name) == nil && n.subsystem(ctx, name.Value)
	}
	return false
}

func winsize(columns, rows uint32) pty.Winsize {
	return pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}
}

func (n *session) subsystem(ctx context.Context, name string) bool {
	switch name {
	case proto.Subsystem:
		n.begin = append(n.begin, func() {
			_ = n.s.serveRPC(ctx, n.ch)
		})
	case "sftp":
		n.begin = append(n.begin, func() {
			defer n.ch.Close()
			server, err := sftp.NewServer(n.ch)
			if err != nil {
				return
			}
			defer server.Close()
			status := uint32(0)
			if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
				status = 1
			}
			_, _ = n.ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{status}))
		})
	default:
		return false
	}
	return true
}

func (n *session) resize(size pty.Winsize) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.term == nil {
		return false
	}
	n.term.size = size
	return n.term.file == nil || pty.Setsize(n.term.file, &size) == nil
}

// signals are the names of RFC 4254, section 6.10.
var signals = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
	"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE,
	"QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// signal goes to the process group: a shell's children are meant too.
func (n *session) signal(name string) bool {
	sig, known := signals[name]
	n.mu.Lock()
	defer n.mu.Unlock()
	return known && n.process != nil && syscall.Kill(-n.process.Pid, sig) == nil
}

func (n *session) start(ctx context.Context, cmd *exec.Cmd) bool {
	cmd.Env = append(environment(), n.env...)
	if home := "/root"; isDir(home) {
		cmd.Dir = home
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return false
	}
	var wait func() error
	var err error
	if n.term != nil {
		wait, err = n.startOnTerminal(cmd)
	} else {
		wait, err = n.startOnPipes(cmd)
	}
	if err != nil {
		// What a shell does: say why and end with 127.
		n.begin = append(n.begin, func() {
			_, _ = io.WriteString(n.ch.Stderr(), "lvslab-agent: "+err.Error()+"\n")
			n.finish(127, "")
		})
		return true
	}
	n.process = cmd.Process
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	n.begin = append(n.begin, func() {
		err := wait()
		stop()
		status, sig := outcome(err, cmd)
		n.finish(status, sig)
	})
	return true
}

// startOnPipes copies stdin itself: cmd.Wait would otherwise wait for the
// client to close it, though the command has long ended.
func (n *session) startOnPipes(cmd *exec.Cmd) (func() error, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = n.ch, n.ch.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(stdin, n.ch)
		_ = stdin.Close()
	}()
	return cmd.Wait, nil
}

func (n *session) startOnTerminal(cmd *exec.Cmd) (func() error, error) {
	cmd.Env = append(cmd.Env, "TERM="+n.term.name)
	file, err := pty.StartWithSize(cmd, &n.term.size)
	if err != nil {
		return nil, err
	}
	n.term.file = file
	go func() { _, _ = io.Copy(file, n.ch) }()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(n.ch, file) // ends with EIO when the last holder of the terminal has gone
	}()
	return func() error {
		err := cmd.Wait()
		<-copied
		n.mu.Lock()
		defer n.mu.Unlock()
		n.term.file = nil
		_ = file.Close()
		return err
	}, nil
}

// outcome is the exit status, or the signal that ended the command.
func outcome(err error, cmd *exec.Cmd) (status uint32, signal string) {
	if err == nil {
		return 0, ""
	}
	if cmd.ProcessState == nil {
		return 126, ""
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		for name, sig := range signals {
			if sig == ws.Signal() {
				return 0, name
			}
		}
		return uint32(128 + int(ws.Signal())), ""
	}
	return uint32(cmd.ProcessState.ExitCode()), ""
}

func (n *session) finish(status uint32, signal string) {
	if signal != "" {
		_, _ = n.ch.SendRequest("exit-signal", false, ssh.Marshal(exitSignal{Signal: signal}))
	} else {
		_, _ = n.ch.SendRequest("exit-status", false, ssh.Marshal(exitStatus{status}))
	}
	_ = n.ch.Close()
}
