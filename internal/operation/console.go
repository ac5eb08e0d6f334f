package operation

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
)

// ConsoleOptions are console's.
type ConsoleOptions struct {
	In io.Reader
	// Prompt is called before each line is read; nil when nobody is there to see
	// it. Then a wrong expression makes the exit code 1.
	Prompt func()
}

// maxLine bounds an expression, in bytes.
const maxLine = 1 << 20

// Console evaluates expressions against a topology, one a line, until the
// input ends or says exit.
func Console(ctx context.Context, s *Settings, path string, o ConsoleOptions) (Exit, error) {
	a, err := s.prepare(path, ApplyOptions{})
	if err != nil {
		return ExitError, err
	}
	results, err := a.lastResults()
	if err != nil {
		return ExitError, err
	}
	lines, failed := readLines(ctx, o)
	wrong := false
	for {
		if o.Prompt != nil {
			o.Prompt()
		}
		select {
		case <-ctx.Done():
			return ExitInterrupted, context.Cause(ctx)
		case line, more := <-lines:
			if !more {
				return exitIf(wrong && o.Prompt == nil), <-failed
			}
			switch text := strings.TrimSpace(line); text {
			case "":
			case "exit", "quit":
				return exitIf(wrong && o.Prompt == nil), nil
			default:
				wrong = !a.evaluate(text, results) || wrong
			}
		}
	}
}

func exitIf(wrong bool) Exit {
	if wrong {
		return ExitError
	}
	return ExitDone
}

// readLines reads in the background: a terminal's read cannot be interrupted.
func readLines(ctx context.Context, o ConsoleOptions) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(o.In)
		in.Buffer(nil, maxLine)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				failed <- nil
				return
			}
		}
		err := in.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = diag.Fail(err, "The line is too long", "Write shorter expressions.", "a line may have %d bytes", maxLine)
		}
		failed <- err
	}()
	return lines, failed
}

// lastResults are the runs of the newest result when they were made on the
// topology as it is; nil when there are none.
func (a *applying) lastResults() (*lang.Results, error) {
	dir := a.prior.LastArtifact
	if dir == "" {
		return nil, nil
	}
	r, err := artifact.OpenStudy(dir)
	if err != nil || !r.Sealed() || r.Manifest().Topology != a.topologyHash() {
		a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The result %s is not at hand or of another topology: what experiments and proofs yield is unknown.", shownPath(dir))})
		return nil, nil
	}
	paths, err := sighting.ProofsOf(r)
	return results(a.study.topology, r.Runs(), r.Backends(), paths), err
}

// evaluate shows the value of an expression, or what is wrong with it.
func (a *applying) evaluate(text string, results *lang.Results) bool {
	v, ds := a.study.config.Eval(a.study.skeleton, a.study.topology, results, text)
	if len(ds) > 0 {
		a.Events.Emit(DiagnosticEvent{Diagnostics: ds, Sources: map[string][]byte{lang.EvalName: []byte(text)}})
	}
	if ds.HasErrors() {
		return false
	}
	data := map[string]any{"expression": text, "type": v.Type().FriendlyName(), "sensitive": lang.Sensitive(v), "known": v.IsWhollyKnown()}
	if !lang.Sensitive(v) && v.IsWhollyKnown() {
		if raw, err := valueJSON(v); err == nil {
			data["value"] = raw
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		raw = nil
	}
	shown := lang.Literal(v)
	if !strings.Contains(text, "nonsensitive(") { // who says that wants to see it
		// What was made of a block carries no marks any more.
		shown, raw = a.study.redact(shown), []byte(a.study.redact(string(raw)))
	}
	a.Events.Emit(ReportEvent{Kind: "value", Text: shown, Data: raw})
	return true
}

// valueJSON is a value without its type.
func valueJSON(v cty.Value) (json.RawMessage, error) {
	if v == cty.NilVal {
		return json.RawMessage("null"), nil
	}
	v, _ = v.UnmarkDeep()
	return ctyjson.Marshal(v, v.Type())
}
