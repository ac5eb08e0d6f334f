package ui

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/version"
)

// JSONVersion is the version of the line format. The first line carries it; a
// change that breaks readers raises the first number.
const JSONVersion = "1.0"

// JSON writes one JSON object a line, each with "type" and "time".
type JSON struct {
	mu  sync.Mutex
	w   io.Writer
	now func() time.Time

	hello sync.Once
}

// NewJSON makes the view. The version line comes before the first other one,
// so that commands whose output is somebody else's (exec, ssh, logs) stay pure.
func NewJSON(w io.Writer) *JSON { return &JSON{w: w, now: time.Now} }

// Hello writes the version line unless it has been written.
func (j *JSON) Hello() {
	j.hello.Do(func() { j.write("version", map[string]any{"ui": JSONVersion, "lvslab": version.Version}) })
}

// Emit implements operation.Events.
func (j *JSON) Emit(e operation.Event) {
	if d, ok := e.(operation.DiagnosticEvent); ok {
		for _, one := range d.Diagnostics {
			j.line("diagnostic", diagnosticJSON(one))
		}
		return
	}
	j.line(e.EventType(), e)
}

// Result writes the machine form of a command's answer.
func (j *JSON) Result(kind string, v any) { j.line(kind, v) }

func (j *JSON) line(kind string, body any) {
	j.Hello()
	j.write(kind, body)
}

func (j *JSON) write(kind string, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	head, _ := json.Marshal(struct {
		Type string    `json:"type"`
		Time time.Time `json:"time"`
	}{kind, j.now().UTC()})
	out := head
	switch {
	case len(raw) > 2 && raw[0] == '{':
		out = append(append(head[:len(head)-1], ','), raw[1:]...)
	case len(raw) > 0 && raw[0] != '{':
		out = append(append(append(head[:len(head)-1], `,"value":`...), raw...), '}')
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.w.Write(append(out, '\n'))
}

func diagnosticJSON(d diag.Diagnostic) map[string]any {
	m := map[string]any{"severity": d.Severity.String(), "summary": d.Summary, "detail": d.Detail, "remedy": d.Remedy}
	if d.Address != "" {
		m["address"] = d.Address
	}
	if d.Subject != nil {
		m["range"] = map[string]any{"filename": d.Subject.Filename,
			"start": map[string]int{"line": d.Subject.Start.Line, "column": d.Subject.Start.Column, "byte": d.Subject.Start.Byte},
			"end":   map[string]int{"line": d.Subject.End.Line, "column": d.Subject.End.Column, "byte": d.Subject.End.Byte}}
	}
	if len(d.Values) > 0 {
		m["values"] = d.Values
	}
	return m
}
