package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The end of a long console is kept, in whole lines as far as they are shown.
func TestTail(t *testing.T) {
	var c tail
	if c.lines() != nil {
		t.Error("an empty console has lines")
	}
	for n := range 5000 {
		fmt.Fprintf(&c, "line %d\r\n", n)
	}
	got := c.lines()
	if len(got) != shown || got[shown-1] != "line 4999" || got[0] != "line 4980" || len(c.text) > tailBytes {
		t.Errorf("%d lines, %q, %d bytes", len(got), got, len(c.text))
	}
}

// The machine reaches nothing: no card, no disk to write to, no file for its port.
func TestArguments(t *testing.T) {
	all := arguments(Spec{Accelerator: "kvm"})
	text := strings.Join(all, " ")
	if !slices.Contains(all, "pc,accel=kvm") || !strings.Contains(text, "-net none") || !strings.Contains(text, "readonly=on") || strings.Contains(text, "path=") {
		t.Error(text)
	}
}

// A trial ends with the last word, with the machine, with silence, or not at all.
func TestWatch(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	for said, tt := range map[string]struct {
		ended context.Context
		quiet time.Duration
		want  string
	}{
		"Decompressing\nDecoding failed\n\n -- System halted": {context.Background(), time.Minute, "the boot has ended: -- System halted"},
		"[ 1.0] Kernel panic - not syncing: VFS: no root\n":   {ended, time.Minute, "ended: Kernel panic - not syncing: VFS: no root"},
		"booting\n": {context.Background(), 200 * time.Millisecond, "nothing on its console for"},
	} {
		q := &qemu{console: &tail{}, ended: tt.ended}
		fmt.Fprint(q.console, said)
		if got := q.watch(context.Background(), tt.quiet); !strings.Contains(got, tt.want) {
			t.Errorf("%q gives %q, want %q", said, got, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := (&qemu{console: &tail{}, ended: context.Background()}).watch(ctx, time.Minute); got != "" {
		t.Errorf("told to end it says %q", got)
	}
}
