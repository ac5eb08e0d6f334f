package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Command is a program to run in the guest. The streams may be nil.
type Command struct {
	Args   []string // empty = the login shell, with a terminal
	Env    []string // NAME=value
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer // with a terminal everything goes to Stdout
	// Terminal asks for a terminal; the caller has put its own into raw mode.
	Terminal *Terminal
	// Signals are passed on to the command's process group: "INT", "TERM" ….
	Signals <-chan string
}

// Terminal describes the caller's terminal.
type Terminal struct {
	Name          string // TERM, for example xterm-256color
	Columns, Rows int
	Resize        <-chan [2]int // columns, rows; may be nil
}

// Exec runs a command without a terminal and returns its exit code. The error
// is not nil when the code is unknown. When ctx ends the command is killed.
func (c *Conn) Exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	return c.Run(ctx, Command{Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

// signalBase is added to a signal's number for the exit code, as shells do.
const signalBase = 128

// closeWithin is how long a guest may take to confirm the end of a command
// that was told to end. Measured: 10 ms under emulation.
const closeWithin = 2 * time.Second

// Run runs a command or the login shell and returns its exit code, 128 + n when
// it ended by signal n. The error is not nil when the code is unknown.
func (c *Conn) Run(ctx context.Context, cmd Command) (int, error) {
	if c.ssh == nil {
		return 0, fmt.Errorf("%s: %w", c.node, ErrCallsOnly)
	}
	s, err := c.ssh.NewSession()
	if err != nil {
		return 0, fmt.Errorf("%s: session: %w", c.node, err)
	}
	defer s.Close()
	if err := prepare(s, cmd); err != nil {
		return 0, fmt.Errorf("%s: %w", c.node, err)
	}
	stdin, err := s.StdinPipe()
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	defer close(ended)
	stop := context.AfterFunc(ctx, func() {
		_ = s.Close()
		select {
		case <-ended:
		case <-time.After(closeWithin):
			_ = c.Close() // the guest does not even confirm: nobody is there
		}
	})
	defer stop()
	if len(cmd.Args) == 0 {
		err = s.Shell()
	} else {
		err = s.Start(Quote(cmd.Args))
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.node, err)
	}
	go feed(stdin, cmd.Stdin)
	go forward(s, cmd, ended)
	code, err := exitCode(s.Wait())
	if ctx.Err() != nil && err != nil {
		return 0, context.Cause(ctx)
	}
	return code, err
}

func prepare(s *ssh.Session, cmd Command) error {
	s.Stdout, s.Stderr = cmd.Stdout, cmd.Stderr
	for _, e := range cmd.Env {
		name, value, _ := strings.Cut(e, "=")
		if err := s.Setenv(name, value); err != nil {
			return fmt.Errorf("environment %s: %w", name, err)
		}
	}
	if t := cmd.Terminal; t != nil {
		if err := s.RequestPty(t.Name, t.Rows, t.Columns, ssh.TerminalModes{}); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
	}
	return nil
}

// feed runs beside the command and not within ssh.Session, whose Wait would
// else wait for a Read of the caller's terminal that never comes back.
func feed(to io.WriteCloser, from io.Reader) {
	if from != nil {
		_, _ = io.Copy(to, from)
	}
	_ = to.Close()
}

// forward passes on signals and changes of the window size.
func forward(s *ssh.Session, cmd Command, ended <-chan struct{}) {
	var resize <-chan [2]int
	if cmd.Terminal != nil {
		resize = cmd.Terminal.Resize
	}
	for {
		select {
		case <-ended:
			return
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			_ = s.WindowChange(size[1], size[0])
		case name, ok := <-cmd.Signals:
			if !ok {
				return
			}
			_ = s.Signal(ssh.Signal(name))
		}
	}
}

// signalNumbers are Linux's numbers of the signals that RFC 4254 names.
var signalNumbers = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9,
	"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
}

func exitCode(err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return signalBase + signalNumbers[exit.Signal()], nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	}
	return 0, fmt.Errorf("%w: %w", ErrLost, err)
}

// Quote makes a shell text of an argument list. Words are put in single quotes
// where needed; the agent starts such texts without a shell.
func Quote(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = a
		if a == "" || strings.IndexFunc(a, special) >= 0 {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:,+@%=", r))
}

// SFTP opens file transfer on the connection; the caller closes it.
func (c *Conn) SFTP() (*sftp.Client, error) {
	if c.ssh == nil {
		return nil, fmt.Errorf("%s: %w", c.node, ErrCallsOnly)
	}
	f, err := sftp.NewClient(c.ssh)
	if err != nil {
		return nil, fmt.Errorf("%s: sftp: %w", c.node, err)
	}
	return f, nil
}
