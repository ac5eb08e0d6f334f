package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
)

// loudly has a kernel say everything from its first instruction on, also what
// unpacks it (Documentation/admin-guide/kernel-parameters.txt: earlyprintk).
const loudly = "earlyprintk=serial,ttyS0,115200 ignore_loglevel "

// lastWords are what is printed when a boot is over: by the code that unpacks the
// kernel (arch/x86/boot/compressed/error.c), by the kernel and by the agent.
var lastWords = []string{"-- System halted", "Kernel panic - not syncing", "lvslab-agent: fatal: "}

// trialEvery is how often the console of a trial is looked at.
const trialEvery = 50 * time.Millisecond

// Try boots a guest once, with everything that it has to say on its console, and
// takes it away when its agent answers. A boot that ends otherwise, or whose
// console is silent for that long, is a [*client.BootError] with the console's
// last lines. It is for kernels that have never been seen to boot.
func Try(parent context.Context, s Spec, quiet time.Duration) error {
	near, far, err := pair()
	if err != nil {
		return err
	}
	defer near.Close()
	args := arguments(s)
	kernel := slices.Index(args, "-append") + 1
	args[kernel] = loudly + strings.ReplaceAll(args[kernel], "quiet ", "")
	m := &Machine{qemu: runBound(args, far)}
	defer func() { m.Stop() }()
	spec, err := identity(s.Node, near)
	if err != nil {
		return err
	}
	limit, stop := context.WithTimeout(parent, bootWithin)
	defer stop()
	ctx, giveUp := context.WithCancelCause(limit)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if reason := m.watch(ctx, quiet); reason != "" {
			giveUp(&client.BootError{Node: s.Node, Reason: reason, Lines: m.console.lines()})
		}
	}()
	conn, err := client.Dial(ctx, spec)
	cause := context.Cause(ctx)
	giveUp(nil)
	<-watched
	var boot *client.BootError
	switch {
	case err == nil:
		m.Conn = conn
		return nil
	case m.ended.Err() != nil && m.failed != nil:
		return diag.Fail(m.failed, "QEMU does not start", "Run `lvslab doctor`: it says what to install.", "")
	case errors.As(cause, &boot):
		return boot
	case parent.Err() != nil:
		return context.Cause(parent)
	case limit.Err() != nil:
		return &client.BootError{Node: s.Node, Reason: "no answer from the agent within " + bootWithin.String(), Lines: m.console.lines()}
	}
	return err
}

// watch returns why a boot is given up, "" when ctx ended first.
func (q *qemu) watch(ctx context.Context, quiet time.Duration) string {
	tick := time.NewTicker(trialEvery)
	defer tick.Stop()
	size, changed := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-q.ended.Done():
			return "the machine has ended" + q.console.lastWord()
		case <-tick.C:
		}
		if now := q.console.size(); now != size {
			size, changed = now, time.Now()
			if word := q.console.lastWord(); word != "" {
				return "the boot has ended" + word
			}
		}
		if time.Since(changed) > quiet {
			return fmt.Sprintf("nothing on its console for %s and no answer from the agent", quiet.Round(time.Second))
		}
	}
}

// size is how much was ever written.
func (t *tail) size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// lastWord is the line that says that all is over, after a colon, or "".
func (t *tail) lastWord() string {
	for _, line := range t.lines() {
		for _, word := range lastWords {
			if at := strings.Index(line, word); at >= 0 {
				return ": " + strings.TrimSpace(line[at:])
			}
		}
	}
	return ""
}
