package lab

import (
	"errors"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/ui"
)

// Explain is what the commands would print about an error of this package: what
// is wrong, where in the topology, and what to do about it, in several lines. The
// error's own text says it in one.
func Explain(err error) string {
	var sources map[string][]byte
	var with *sourced
	if errors.As(err, &with) {
		sources, err = with.sources, with.error
	}
	var b strings.Builder
	for _, d := range diag.From(err).Merged() {
		b.WriteString(ui.Diagnostic(d, sources, ui.Style{Width: 100}))
	}
	return b.String()
}

// sourced is an error with the files that its operation has read.
type sourced struct {
	error
	sources map[string][]byte
}

// Unwrap returns the operation's error.
func (s *sourced) Unwrap() error { return s.error }

func explainable(err error, s *operation.Settings) error {
	if err == nil {
		return nil
	}
	return &sourced{err, s.Sources()}
}
