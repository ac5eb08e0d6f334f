package ui

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/operation"
)

// Human shows events to people: finished things as lines, the thing going on
// as one live line that is rewritten, or not at all when the output is not a
// terminal.
type Human struct {
	mu       sync.Mutex
	out, err io.Writer
	style    Style
	live     string
	running  map[string]time.Time // resources in flight
	phase    operation.Phase
}

// NewHuman makes the view; diagnostics go to errOut, all else to out.
func NewHuman(out, errOut io.Writer) *Human {
	return &Human{out: out, err: errOut, style: StyleFor(out), running: map[string]time.Time{}}
}

// Emit implements operation.Events.
func (h *Human) Emit(e operation.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e := e.(type) {
	case operation.PhaseEvent:
		h.phaseEvent(e)
	case operation.ResourceEvent:
		h.resourceEvent(e)
	case operation.PlanEvent:
		h.unlessEmpty(e.Text)
	case operation.RunEvent:
		h.runEvent(e)
	case operation.DiagnosticEvent:
		h.diagnostics(e)
	case operation.AdviceEvent:
		if e.Text != "" {
			h.clearLive()
			fmt.Fprintln(h.err, e.Text)
			h.showLive()
		}
	case operation.CheckEvent:
		h.checkEvent(e)
	case operation.NoticeEvent:
		h.println(e.Text)
	case operation.ReportEvent:
		h.unlessEmpty(e.Text)
	case operation.OutputsEvent:
		h.println(e.Text)
	case operation.SummaryEvent:
		h.println("\n" + strings.TrimRight(e.Text, "\n"))
	}
}

func (h *Human) phaseEvent(e operation.PhaseEvent) {
	switch e.State {
	case "started", "progress":
		h.phase = e.Phase
		h.setLive(fmt.Sprintf("%s  %s %s", clock(e.At), e.Phase, e.Detail))
	case "done":
		h.println(fmt.Sprintf("%s  %-11s %s", clock(e.At), e.Phase, e.Detail))
	}
}

func (h *Human) resourceEvent(e operation.ResourceEvent) {
	switch e.State {
	case "started":
		h.running[e.Address] = time.Now()
	case "failed":
		delete(h.running, e.Address)
		h.println(fmt.Sprintf("        %s %s of %s failed after %.1f s", h.style.Red("✗"), e.Action, e.Address, e.Took))
	default:
		delete(h.running, e.Address)
	}
	names := make([]string, 0, len(h.running))
	for a := range h.running {
		names = append(names, a)
	}
	sort.Strings(names)
	h.setLive(fmt.Sprintf("        %s %s", h.phase, strings.Join(names, ", ")))
}

func (h *Human) runEvent(e operation.RunEvent) {
	if e.State == "started" {
		left := ""
		if e.Left > 0 {
			left = ", " + e.Left.Round(time.Second).String() + " left"
		}
		h.setLive(fmt.Sprintf("  run %d/%d  %s%s", e.K, e.N, e.Treatment, left))
		return
	}
	mark := h.style.Green("✓")
	if !e.Valid {
		mark = h.style.Red("✗")
	} else if len(e.Flags) > 0 {
		mark = h.style.Yellow("!")
	}
	dec := "–"
	if e.Decisions != nil {
		dec = fmt.Sprint(*e.Decisions)
	}
	line := fmt.Sprintf("  %s %*d/%d  %-28s %5d/%d ok  %4s decisions  %s  %.1f s",
		mark, len(fmt.Sprint(e.N)), e.K, e.N, e.Treatment, e.AnswersOK, e.Sent, dec, shares(e.Backends), e.Took.Seconds())
	if len(e.Flags) > 0 {
		line += "  " + strings.Join(e.Flags, ",")
	}
	h.println(line)
}

func shares(by map[string]int) string {
	names := make([]string, 0, len(by))
	for n, c := range by {
		if c > 0 {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %d", strings.TrimPrefix(n, "backend."), by[n]))
	}
	return strings.Join(parts, " · ")
}

func (h *Human) checkEvent(e operation.CheckEvent) {
	if e.Passed {
		h.println(fmt.Sprintf("%s check %s", h.style.Green("✓"), e.Name))
		return
	}
	h.println(fmt.Sprintf("%s check %s: %s", h.style.Red("✗"), e.Name, e.Message))
}

func (h *Human) diagnostics(e operation.DiagnosticEvent) {
	h.clearLive()
	for _, d := range e.Diagnostics {
		fmt.Fprintln(h.err, Diagnostic(d, e.Sources, h.style))
	}
	h.showLive()
}

// Diagnostics shows messages that belong to no event stream.
func (h *Human) Diagnostics(ds diag.Diagnostics, sources map[string][]byte) {
	h.Emit(operation.DiagnosticEvent{Diagnostics: ds, Sources: sources})
}

// Close removes the live line.
func (h *Human) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clearLive()
	h.live = ""
}

func clock(s float64) string { return fmt.Sprintf("%6.1fs", s) }

func (h *Human) println(text string) {
	h.clearLive()
	fmt.Fprintln(h.out, text)
	h.showLive()
}

func (h *Human) unlessEmpty(text string) {
	if text != "" {
		h.println(text)
	}
}

func (h *Human) setLive(text string) {
	if !h.style.Live {
		return
	}
	h.clearLive()
	if r := []rune(text); len(r) > h.style.Width-1 {
		text = string(r[:h.style.Width-2]) + "…"
	}
	h.live = text
	h.showLive()
}

func (h *Human) clearLive() {
	if h.style.Live && h.live != "" {
		fmt.Fprint(h.out, "\r\x1b[K")
	}
}

func (h *Human) showLive() {
	if h.style.Live && h.live != "" {
		fmt.Fprint(h.out, h.live)
	}
}
