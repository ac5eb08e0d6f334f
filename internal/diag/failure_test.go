package diag

import (
	"errors"
	"fmt"
	"testing"
)

func TestFailureText(t *testing.T) {
	cause := errors.New("no space left on device")
	for name, c := range map[string]struct {
		err    error
		text   string
		detail string
	}{
		"no cause":   {nil, "it failed: a is full (make room)", "a is full"},
		"cause":      {cause, "it failed: a is full (make room): no space left on device", "a is full: no space left on device"},
		"told cause": {Told(cause), "it failed: a is full (make room)", "a is full"},
	} {
		f := Fail(c.err, "it failed", "make room", "%s is full", "a")
		if f.Error() != c.text {
			t.Errorf("%s: %q", name, f)
		}
		ds := From(fmt.Errorf("run 3: %w", f))
		if len(ds) != 1 || ds[0].Detail != c.detail || ds[0].Remedy != "make room" {
			t.Errorf("%s: %+v", name, ds)
		}
		if c.err != nil && !errors.Is(f, cause) {
			t.Errorf("%s: the cause is lost", name)
		}
	}
}

// A detail that quotes its cause is not followed by it once more.
func TestCauseToldOnce(t *testing.T) {
	f := Fail(errors.New("open x: no such file"), "Cannot write", "Name another.", "the capture: open x: no such file")
	if want := "Cannot write: the capture: open x: no such file (Name another.)"; f.Error() != want {
		t.Errorf("%q", f)
	}
	if got := From(f)[0].Detail; got != "the capture: open x: no such file" {
		t.Errorf("%q", got)
	}
}

func TestMessageAsCause(t *testing.T) {
	inner := Fail(errors.New("EOF"), "director.lb has died", "Apply again.", "its QEMU is gone.\nIts console:\n  [ 1.0] x")
	outer := Fail(fmt.Errorf("director.lb: %w", inner), "Settings were not given back", "Repair it.", "lb had lent them")
	if got := From(outer)[0]; got.Detail != "lb had lent them: director.lb has died: its QEMU is gone" || got.Remedy != "Repair it." {
		t.Errorf("%+v", got)
	}
}

func TestMerged(t *testing.T) {
	same := func(at string) error {
		f := Fail(nil, "backend.web has ended", "Apply again.", "its QEMU is gone")
		f.Diagnostic = f.Diagnostic.For(at)
		return f
	}
	other := Fail(nil, "backend.web has ended", "Apply again.", "its kernel panicked")
	got := From(errors.Join(same("backend.web/dns"), other, same("backend.web/sysctl"), same("backend.web/dns"))).Merged()
	if len(got) != 2 || got[0].Address != "backend.web/dns, backend.web/sysctl" || got[1].Detail != "its kernel panicked" {
		t.Errorf("%+v", got)
	}
	at := func(line int) error {
		d := Errorf("Bad value", "", "it is odd").At(Range{Filename: "a.hcl"})
		d.Subject.Start.Line = line
		return Diagnostics{d}.Err()
	}
	if got := From(errors.Join(at(1), at(2))).Merged(); len(got) != 2 {
		t.Errorf("places in the source are not told apart: %+v", got)
	}
}
