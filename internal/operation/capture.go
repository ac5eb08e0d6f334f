package operation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
)

// captureEnds is how long tcpdump may take to end once it was told to.
const captureEnds = 5 * time.Second

// Capture shows the packets at a node, or writes them to a file, with the guest's
// tcpdump, until the time is up or ctx ends: that is its ordinary end.
func Capture(ctx context.Context, s *Settings, o CaptureOptions) (int, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return int(ExitError), err
	}
	node, err := l.machine(o.Node)
	if err != nil {
		return int(ExitError), err
	}
	conn, release, err := l.dialUser(ctx, o.Node, node, "lvslab capture "+o.Node)
	if err != nil {
		return int(ExitError), err
	}
	defer release()
	out, done, err := captureTarget(o)
	if err != nil {
		return int(ExitError), err
	}
	code, err := dump(ctx, conn, o, out)
	return code, done(err)
}

// dump runs tcpdump. The end of ctx, or of the time, interrupts it, so that it
// writes what it has and says how many packets it saw. Before it listens it would
// die of that, so the time counts from there on.
func dump(ctx context.Context, conn *client.Conn, o CaptureOptions, out io.Writer) (int, error) {
	// The command outlives ctx for as long as it takes to end.
	running, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	listening := &awaited{to: o.Stderr, what: []byte("listening on"), yes: make(chan struct{})}
	signals := make(chan string, 1)
	go func() {
		defer time.AfterFunc(captureEnds, kill)
		select {
		case <-ctx.Done():
			kill()
			return
		case <-running.Done():
			return
		case <-listening.yes:
		}
		var up <-chan time.Time
		if o.For > 0 {
			up = time.After(o.For)
		}
		select {
		case <-ctx.Done():
		case <-running.Done():
		case <-up:
		}
		signals <- "INT"
	}()
	code, err := conn.Run(running, client.Command{Args: tcpdump(o), Stdout: out, Stderr: listening, Signals: signals})
	switch {
	case err != nil && ctx.Err() != nil:
		return int(ExitError), ctx.Err()
	case err != nil:
		return int(ExitError), fmt.Errorf("capture at %s: %w", o.Node, err)
	}
	return code, nil
}

// awaited passes a text on and tells when it holds a word.
type awaited struct {
	to   io.Writer
	what []byte
	seen []byte
	yes  chan struct{} // closed when it was there
	once sync.Once
}

// Write implements io.Writer.
func (h *awaited) Write(b []byte) (int, error) {
	h.seen = append(h.seen, b...)
	if bytes.Contains(h.seen, h.what) {
		h.once.Do(func() { close(h.yes) })
	}
	h.seen = h.seen[max(0, len(h.seen)-len(h.what)):]
	return h.to.Write(b)
}

// tcpdump is the command line in the guest: no names are looked up, a line or a
// packet is written when it comes. Lines show link-layer addresses, which tell who
// has answered with direct routing and tunnels.
func tcpdump(o CaptureOptions) []string {
	args := []string{"tcpdump", "-n", "-i", o.Device}
	if o.Count > 0 {
		args = append(args, "-c", strconv.Itoa(o.Count))
	}
	if o.Write != "" {
		args = append(args, "-U", "-w", "-")
	} else {
		args = append(args, "-l", "-e")
	}
	return append(append(args, "--"), o.Filter...)
}

// captureTarget opens what is written to. done closes it and joins its error to
// the capture's own.
func captureTarget(o CaptureOptions) (io.Writer, func(error) error, error) {
	switch o.Write {
	case "", "-":
		return o.Stdout, func(err error) error { return err }, nil
	}
	f, err := os.Create(o.Write)
	if err != nil {
		return nil, nil, diag.Fail(err, "Cannot write the capture", "Name a file in a directory that exists.", "%v", err)
	}
	return f, func(err error) error {
		cerr := f.Close()
		if err == nil && cerr != nil {
			return fmt.Errorf("write %s: %w", o.Write, cerr)
		}
		return err
	}, nil
}
