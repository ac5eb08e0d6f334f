package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// Console is where a guest's serial console is written to, and how long it may
// stay silent before the boot counts as hung.
type Console struct {
	Path  string
	Quiet time.Duration
}

// BootError says that a guest did not come up. A hung boot is rare (one in
// some hundred under emulation) and mended by trying once more.
type BootError struct {
	Node   string
	Reason string
	Lines  []string // the console's last ones
}

func (e *BootError) Error() string {
	text := fmt.Sprintf("%s did not come up: %s", e.Node, e.Reason)
	if len(e.Lines) == 0 {
		return text + "; its console is empty"
	}
	return text + "; last console lines:\n  " + strings.Join(e.Lines, "\n  ")
}

// consoleLines is how many of the console's last lines an error shows.
const consoleLines = 50

// consoleEvery is how often the console is looked at; a look is one stat.
const consoleEvery = 100 * time.Millisecond

// WaitReady dials a guest that is booting. It ends early, with an error that
// wraps a [*BootError], when the console falls silent or shows a panic.
func WaitReady(ctx context.Context, spec DialSpec, console Console) (*Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if reason := watch(ctx, console); reason != "" {
			cancel(&BootError{Node: spec.Node, Reason: reason, Lines: LastLines(console.Path, consoleLines)})
		}
	}()
	c, err := Dial(ctx, spec)
	cause := context.Cause(ctx)
	cancel(nil)
	<-watched
	if err == nil {
		return c, nil
	}
	var boot *BootError
	if !errors.As(cause, &boot) {
		if ctx.Err() == nil || !errors.Is(cause, context.DeadlineExceeded) {
			return nil, err
		}
		boot = &BootError{Node: spec.Node, Reason: "time is up", Lines: LastLines(console.Path, consoleLines)}
	}
	return nil, diag.Fail(boot, spec.Node+" did not come up",
		"Apply again. If it stays so, give the machine more memory, or run `lvslab doctor`.", "%s", boot.Reason)
}

// watch returns why the boot is given up, "" when ctx ended first.
func watch(ctx context.Context, console Console) string {
	tick := time.NewTicker(consoleEvery)
	defer tick.Stop()
	size, changed := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
		if st, err := os.Stat(console.Path); err == nil && st.Size() != size {
			size, changed = st.Size(), time.Now()
			if line := panicLine(console.Path); line != "" {
				return line
			}
		}
		if console.Quiet > 0 && time.Since(changed) > console.Quiet {
			return fmt.Sprintf("nothing on its console for %s and no answer from the agent", console.Quiet)
		}
	}
}

// panicMarks are what the kernel and the agent print when all is over.
var panicMarks = []string{"Kernel panic - not syncing", "lvslab-agent: fatal: "}

func panicLine(path string) string {
	for _, line := range LastLines(path, consoleLines) {
		for _, mark := range panicMarks {
			if i := strings.Index(line, mark); i >= 0 {
				return line[i:]
			}
		}
	}
	return ""
}

// tailBytes is how much of a console's end is looked at for its last lines.
const tailBytes = 16 << 10

// LastLines returns the last n lines of a console file, without carriage
// returns and control characters; none when the file can't be read.
func LastLines(path string, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(0, st.Size()-tailBytes)
	tail := make([]byte, st.Size()-from)
	read, _ := f.ReadAt(tail, from)
	var lines []string
	for line := range bytes.Lines(tail[:read]) {
		text := strings.TrimSpace(strings.Map(printable, string(line)))
		if text != "" {
			lines = append(lines, text)
		}
	}
	return lines[max(0, len(lines)-n):]
}

func printable(r rune) rune {
	if r < ' ' && r != '\t' || r == 0x7f {
		return -1
	}
	return r
}
