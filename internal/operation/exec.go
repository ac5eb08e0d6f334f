package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/provider/schema"
)

const enginePort = proto.EnginePort

// userContact bounds the connection to a machine that is up: 0.1 s when idle,
// seconds while its emulated processor is busy with a run.
const userContact = 20 * time.Second

// Exec runs a command on one or more nodes of a lab that is up, or a shell on one
// of them, and returns the command's exit code. It takes a user port and no lock of
// the lab, so it works while an experiment is running. A word that stands for
// several nodes runs the command on all of them at once, see [lab.group].
func Exec(ctx context.Context, s *Settings, o ExecOptions) (int, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return int(ExitError), err
	}
	if o.Shell {
		return l.execOn(ctx, o)
	}
	nodes, one, err := l.group(o.Node)
	switch {
	case err != nil:
		return int(ExitError), err
	case one:
		return l.execOn(ctx, o)
	}
	return l.execOnAll(ctx, nodes, o)
}

// execOn runs the command or shell on the node that is named.
func (l lab) execOn(ctx context.Context, o ExecOptions) (int, error) {
	node, err := l.machine(o.Node)
	if err != nil {
		return int(ExitError), err
	}
	conn, release, err := l.dialUser(ctx, o.Node, node, commandText(o))
	if err != nil {
		return int(ExitError), err
	}
	defer release()
	watch, stop := context.WithCancel(ctx)
	defer stop()
	var crash atomic.Pointer[error]
	console := l.consolePath(node)
	from := client.ConsoleSize(console)
	go func() {
		if reason, around := client.AwaitCrash(watch, console, from); reason != "" {
			err := crashed(o.Node, reason, around)
			crash.Store(&err)
			conn.Close()
		}
	}()
	go func() {
		if conn.AwaitSilence(watch, silentGuest) {
			err := standsStill(o.Node)
			crash.Store(&err)
			conn.Close()
		}
	}()
	code, err := runThere(ctx, conn, o)
	if c := crash.Load(); c != nil {
		return int(ExitError), *c
	}
	if errors.Is(err, client.ErrLost) && ctx.Err() == nil {
		err = diag.Fail(diag.Told(err), "The connection to "+o.Node+" was lost",
			"Look with 'lvslab show' whether the lab is up, and at 'lvslab logs "+quoteNode(o.Node)+"'.",
			"it ended before the command did")
	}
	return code, err
}

// silentGuest is how long a guest may leave the question whether it is there
// unanswered while a command runs. One whose emulated processor is busy with a run
// takes seconds.
const silentGuest = 30 * time.Second

func standsStill(node string) error {
	f := diag.Fail(diag.Told(client.ErrLost), node+" does not answer",
		"Look at its console with 'lvslab logs "+quoteNode(node)+"'; 'lvslab apply --replace "+quoteNode(node)+"' makes it anew.",
		"it stands still: it has answered nothing for %s", silentGuest)
	f.Diagnostic = f.Diagnostic.For(node)
	return f
}

// runThere runs the command, or a shell on the caller's terminal.
func runThere(ctx context.Context, conn *client.Conn, o ExecOptions) (int, error) {
	cmd := client.Command{Args: o.Argv, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	in, isFile := o.Stdin.(*os.File)
	if !o.Shell {
		// An idle terminal must not keep the command's end from being seen, and
		// its Ctrl-C belongs to the command.
		return conn.Run(ctx, cmd)
	}
	cmd.Args = nil
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return conn.Run(ctx, cmd)
	}
	restore, terminal, err := rawTerminal(in)
	if err != nil {
		return int(ExitError), err
	}
	defer restore()
	cmd.Terminal = terminal
	return conn.Run(ctx, cmd)
}

func commandText(o ExecOptions) string {
	if o.Shell {
		return "lvslab ssh " + o.Node
	}
	return "lvslab exec " + o.Node + " -- " + strings.Join(o.Argv, " ")
}

// rawTerminal hands the caller's terminal over and follows its size.
func rawTerminal(in *os.File) (func(), *client.Terminal, error) {
	fd := int(in.Fd())
	cols, rows, err := term.GetSize(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	winch := make(chan os.Signal, 1)
	signal.Notify(winch, syscall.SIGWINCH)
	resize := make(chan [2]int, 1)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-winch:
				if c, r, err := term.GetSize(fd); err == nil {
					select {
					case resize <- [2]int{c, r}:
					case <-done:
						return
					}
				}
			}
		}
	}()
	restore := func() {
		signal.Stop(winch)
		close(done)
		_ = term.Restore(fd, old)
	}
	return restore, &client.Terminal{Name: os.Getenv("TERM"), Columns: cols, Rows: rows, Resize: resize}, nil
}

// Logs prints a machine's console, also that of a lab that is gone.
func Logs(ctx context.Context, s *Settings, o LogsOptions) (Exit, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return ExitError, err
	}
	far, giveBack, err := l.take(ctx)
	switch {
	case err != nil:
		s.warn(diag.Diagnostics{diag.Warnf("The console is shown as far as it was copied", "", "%s", inOneLine(err))})
	case far != nil:
		defer giveBack()
		if err := far.copies.pull(ctx); err != nil {
			return ExitError, err
		}
	}
	f, err := l.console(o.Node)
	if err != nil {
		return ExitError, err
	}
	defer f.Close()
	for {
		if _, err := io.Copy(o.Out, f); err != nil || !o.Follow {
			return ExitDone, err
		}
		select {
		case <-ctx.Done():
			return ExitDone, nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// consolePath is where a machine's console can be read here.
func (l lab) consolePath(d schema.Domain) string {
	if uri, foreign := foreignURI(l.state); foreign && isFar(uri) {
		return filepath.Join(l.dir, "console", filepath.Base(d.Console))
	}
	return d.Console
}

// console opens a machine's console log: the one its domain writes to, or the
// one that a machine of that name has left.
func (l lab) console(node string) (*os.File, error) {
	path := ""
	if d, err := l.machine(node); err == nil {
		path = l.consolePath(d)
	} else if !errors.Is(err, errNotUp) {
		return nil, err
	} else if n, perr := addr.ParseNoun(node); perr == nil {
		if id, other := l.state.Identities[n]; other {
			n = id
		}
		path = lower.ConsolePath(l.dir, n)
	} else {
		return nil, perr
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, diag.Fail(err, "No console log", "Apply the lab; logs are kept until the next apply.", "node %s", node)
	}
	return f, err
}
