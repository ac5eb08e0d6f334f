package client

import (
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
	// Over, unless nil, says of all that the console shows that the boot is over and
	// nothing on it will start the agent. Then it counts as hung after OverQuiet.
	Over      func(lines []string) bool
	OverQuiet time.Duration
}

// quiet is how long the console may be silent after what it shows.
func (c Console) quiet() time.Duration {
	if c.Over != nil && c.Over(Lines(c.Path)) {
		return c.OverQuiet
	}
	return c.Quiet
}

// BootError says that a guest did not come up. A hung boot is rare (one in
// some hundred under emulation) and mended by trying once more.
type BootError struct {
	Node   string
	Reason string
	Lines  []string // the console's last ones
}

func (e *BootError) Error() string {
	if len(e.Lines) == 0 {
		return e.Reason + "; its console is empty"
	}
	return e.Reason + "; last console lines:\n  " + strings.Join(e.Lines, "\n  ")
}

// consoleLines is how many of the console's last lines an error shows.
const consoleLines = 20

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
		if boot := watch(ctx, console); boot != nil {
			boot.Node = spec.Node
			cancel(boot)
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
		"Apply again. If it stays so, give the machine more memory, or run `lvslab doctor`.", "")
}

// watch returns why the boot is given up, nil when ctx ended first.
func watch(ctx context.Context, console Console) *BootError {
	tick := time.NewTicker(consoleEvery)
	defer tick.Stop()
	size, changed, quiet := int64(0), time.Now(), console.Quiet
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if st, err := os.Stat(console.Path); err == nil && st.Size() != size {
			size, changed, quiet = st.Size(), time.Now(), console.quiet()
			if reason, around := Panic(console.Path, 0); reason != "" {
				return &BootError{Reason: reason, Lines: around}
			}
		}
		if quiet > 0 && time.Since(changed) > quiet {
			return &BootError{
				Reason: fmt.Sprintf("nothing on its console for %s and no answer from the agent", quiet.Round(time.Second/10)),
				Lines:  LastLines(console.Path, consoleLines),
			}
		}
	}
}

// panicMarks are what the kernel and the agent print when all is over.
var panicMarks = []string{"Kernel panic - not syncing", "lvslab-agent: fatal: "}

// upMark is what the agent prints at the end of a good boot.
const upMark = "lvslab-agent: ports open"

// downMarks are what the kernel prints, however quiet it was told to be, when it
// is told to go down (kernel/reboot.c: kernel_restart, kernel_halt,
// kernel_power_off; drivers/tty/sysrq.c: sysrq_handle_reboot).
var downMarks = []struct{ mark, means string }{
	{"reboot: Restarting system", "it boots again"},
	{"sysrq: Resetting", "it boots again"},
	{"reboot: System halted", "it was halted"},
	{"reboot: Power down", "it was switched off"},
}

// goesDown says what a guest was told after the console's first from bytes, "" when
// it was not told to go down.
func goesDown(path string, from int64) string {
	for _, line := range linesOf(path, from) {
		for _, d := range downMarks {
			if strings.Contains(line, d.mark) {
				return d.means
			}
		}
	}
	return ""
}

// Of a panic's text the lines before it say what led there, and a few after it
// which process it was; the stack that follows fills a screen.
const (
	linesBefore = 5
	linesAfter  = 3
)

// Panic looks for the end of a guest in its console after the first from
// bytes: it returns what the kernel or the agent said and the lines around it,
// "" when there was none or the guest has come up again since.
func Panic(path string, from int64) (reason string, around []string) {
	lines := linesOf(path, from)
	for at, line := range lines {
		if strings.Contains(line, upMark) {
			reason = ""
		}
		for _, mark := range panicMarks {
			if i := strings.Index(line, mark); i >= 0 && reason == "" {
				reason, around = line[i:], lines[max(0, at-linesBefore):min(len(lines), at+1+linesAfter)]
			}
		}
	}
	if reason == "" {
		return "", nil
	}
	return reason, around
}

// AwaitCrash waits until the console shows, after its first from bytes, that a
// guest that was up has panicked, goes down or has booted again, and says which,
// with the lines around it. It returns "" when ctx ended first. The guest's ports tell
// nothing of it: QEMU keeps them open over a reboot.
func AwaitCrash(ctx context.Context, path string, from int64) (reason string, around []string) {
	tick := time.NewTicker(consoleEvery)
	defer tick.Stop()
	// The agent says that it is up after its ports are: that line may come late.
	ups := 1 - min(1, countUps(path, 0))
	for size := from; ; {
		select {
		case <-ctx.Done():
			return "", nil
		case <-tick.C:
		}
		st, err := os.Stat(path)
		if err != nil || st.Size() == size {
			continue
		}
		size = st.Size()
		if reason, around := Panic(path, from); reason != "" {
			return reason, around
		}
		if means := goesDown(path, from); means != "" {
			return means, LastLines(path, linesBefore)
		}
		if countUps(path, from) > ups {
			return "it has booted again", LastLines(path, linesBefore)
		}
	}
}

func countUps(path string, from int64) (n int) {
	for _, line := range linesOf(path, from) {
		if strings.Contains(line, upMark) {
			n++
		}
	}
	return n
}

// ConsoleSize returns the length of a console's log, 0 when there is none.
func ConsoleSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}
