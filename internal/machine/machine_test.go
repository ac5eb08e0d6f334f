package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
