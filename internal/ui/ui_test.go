package ui

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/operation"
)

func sample() (diag.Diagnostic, map[string][]byte) {
	src := []byte("network \"lan\" {\n\tcidr = var.prefx\n}\n")
	r := diag.Range{Filename: "lab.hcl", Start: hcl.Pos{Line: 2, Column: 9, Byte: 24}, End: hcl.Pos{Line: 2, Column: 18, Byte: 33}}
	d := diag.Errorf("Unknown variable", `Did you mean "prefix"?`, "The topology declares no variable of this name; it declares one whose name differs in a single letter, and a long detail like this one is broken at blanks.").At(r)
	d.Values = []diag.Value{{Name: "each.key", Rendered: `"a"`}}
	return d, map[string][]byte{"lab.hcl": src}
}

func TestDiagnostic(t *testing.T) {
	d, src := sample()
	plain := Style{Width: 72}
	text := Diagnostic(d, src, plain)
	text += "\n" + Diagnostic(diag.Warnf("Boot hung", "", "once").For("backend.ns[0]"), nil, plain)
	text += "\n" + Diagnostic(d, nil, plain) // the source is not at hand
	golden.Check(t, "diagnostic.golden", text)
}

func TestColoursOnlyWhereTheyBelong(t *testing.T) {
	d, src := sample()
	if got := Diagnostic(d, src, Style{Width: 80}); strings.Contains(got, "\x1b") {
		t.Error("escape codes without colour")
	}
	if got := Diagnostic(d, src, Style{Width: 80, Color: true}); !strings.Contains(got, "\x1b[1;31mError:") {
		t.Errorf("no colour: %q", got)
	}
}

func events() []operation.Event {
	one := 1
	return []operation.Event{
		operation.PhaseEvent{Phase: operation.PhaseCreate, State: "started"},
		operation.ResourceEvent{Address: "director.lb/domain", Action: "create", State: "started"},
		operation.ResourceEvent{Address: "director.lb/domain", Action: "create", State: "failed", Took: 1.5},
		operation.PhaseEvent{Phase: operation.PhaseCreate, State: "done", Detail: "5 machines", At: 2.25},
		operation.RunEvent{RunID: "01-01-rr", Treatment: "scheduler=rr", State: "started", K: 1, N: 50, Left: time.Minute},
		operation.RunEvent{RunID: "01-01-rr", Treatment: "scheduler=rr", State: "done", K: 1, N: 50, AnswersOK: 1000, Sent: 1000,
			Decisions: &one, Backends: map[string]int{"backend.ns[0]": 1000, "backend.ns[1]": 0}, Valid: true, Took: 2 * time.Second},
		operation.RunEvent{Treatment: "scheduler=sh", State: "done", K: 2, N: 50, AnswersOK: 990, Sent: 1000,
			Flags: []string{"lost_in_tunnel"}, Valid: true, Took: time.Second},
		operation.CheckEvent{Name: "nothing_lost", Passed: false, Message: "10 queries"},
		operation.SummaryEvent{Text: "done\n"},
	}
}

func TestHumanPlainLines(t *testing.T) {
	var out, errOut bytes.Buffer
	h := NewHuman(&out, &errOut)
	for _, e := range events() {
		h.Emit(e)
	}
	d, src := sample()
	h.Diagnostics(diag.Diagnostics{d}, src)
	h.Close()
	golden.Check(t, "human.golden", out.String())
	if strings.Contains(out.String(), "\r") {
		t.Error("a live line where the output is no terminal")
	}
	if !strings.Contains(errOut.String(), "Unknown variable") {
		t.Errorf("diagnostics went elsewhere: %q", errOut.String())
	}
}

func TestNothingToSayIsNoLine(t *testing.T) {
	var out bytes.Buffer
	h := NewHuman(&out, &out)
	h.Emit(operation.PlanEvent{})
	h.Emit(operation.ReportEvent{Kind: "state_list"})
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}

func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	j := NewJSON(&out)
	if out.Len() > 0 {
		t.Error("a line before there was anything to say")
	}
	for _, e := range events() {
		j.Emit(e)
	}
	d, _ := sample()
	j.Emit(operation.DiagnosticEvent{Diagnostics: diag.Diagnostics{d}})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(events())+2 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %d: %v: %s", i, err, line)
		}
		if m["type"] == "" || m["time"] == nil {
			t.Errorf("line %d lacks type or time: %s", i, line)
		}
		if i == 0 && (m["type"] != "version" || m["ui"] != JSONVersion) {
			t.Errorf("first line: %s", line)
		}
		if i == len(lines)-1 && (m["severity"] != "error" || m["remedy"] == "") {
			t.Errorf("diagnostic: %s", line)
		}
	}
}
