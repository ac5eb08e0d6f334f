// Package diag holds what lvslab says to people: diagnostics with a summary, a
// detail, the place in the source and the remedy.
//
// Errors travel through the program as ordinary Go errors, wrapped with %w.
// They become diagnostics at the edge, by [From]; code that knows the cause and
// the cure returns a [*Failure], which is an error that carries its diagnostic
// with it through any number of wraps.
package diag

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
)

// Range is a place in a source file. HCL's own type is used so that no
// position is ever translated.
type Range = hcl.Range

// Severity tells an error from a warning.
type Severity int

// The two severities: an Error stops the operation, a Warning does not.
const (
	Error Severity = iota
	Warning
)

// String returns "error" or "warning", as used in JSON output.
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Value is one named value that took part in a failing expression, already
// rendered for people.
type Value struct {
	Name     string `json:"name"`
	Rendered string `json:"rendered"`
}

// Diagnostic is one message to a person. Summary says what is wrong in a few
// words without a full stop; Detail says why, naming the values; Remedy says
// what to do next, as an instruction.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	Remedy   string
	// Address is the resource or node concerned, "" when none is.
	Address string
	// Subject is the exact place; Context is a larger one around it. Both may be nil.
	Subject *Range
	Context *Range
	Values  []Value
}

// Diagnostics is a list of messages. A nil list means that all is well.
type Diagnostics []Diagnostic

// HasErrors reports whether any of the messages is an error.
func (ds Diagnostics) HasErrors() bool {
	for _, d := range ds {
		if d.Severity == Error {
			return true
		}
	}
	return false
}

// Err returns the list as an error, or nil when it holds no errors. Warnings
// are lost on this way: use it where only errors matter.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	return diagnosticsError{ds}
}

// Errorf makes an error diagnostic without a source range.
func Errorf(summary, remedy, format string, args ...any) Diagnostic {
	return Diagnostic{Severity: Error, Summary: summary, Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

// Warnf makes a warning without a source range.
func Warnf(summary, remedy, format string, args ...any) Diagnostic {
	return Diagnostic{Severity: Warning, Summary: summary, Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

// At returns the diagnostic with its subject set.
func (d Diagnostic) At(r Range) Diagnostic {
	d.Subject = &r
	return d
}

// For returns the diagnostic with its address set.
func (d Diagnostic) For(address string) Diagnostic {
	d.Address = address
	return d
}

// String returns the message in one line, for logs and errors.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.Subject != nil {
		fmt.Fprintf(&b, "%s:%d,%d: ", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
	}
	if d.Address != "" {
		b.WriteString(d.Address + ": ")
	}
	b.WriteString(d.Summary)
	if d.Detail != "" {
		b.WriteString(": " + d.Detail)
	}
	if d.Remedy != "" {
		b.WriteString(" (" + d.Remedy + ")")
	}
	return b.String()
}

// Merged returns the list with messages that differ in nothing but the address
// told once, for all of their addresses: one dead machine fails everything that
// was to be set on it.
func (ds Diagnostics) Merged() Diagnostics {
	var out Diagnostics
	type text struct{ summary, detail, remedy string }
	at := map[text]int{}
	addresses := map[int][]string{}
	for _, d := range ds {
		key := text{d.Summary, d.Detail, d.Remedy}
		i, known := at[key]
		switch {
		case !known || d.Subject != nil:
			i = len(out)
			at[key], addresses[i] = i, []string{d.Address}
			out = append(out, d)
		case d.Address != "" && !slices.Contains(addresses[i], d.Address):
			addresses[i] = append(addresses[i], d.Address)
			out[i].Address = strings.TrimPrefix(strings.Join(addresses[i], ", "), ", ")
		}
	}
	return out
}

// Sort orders the list by file and position; messages without a place come
// last, in the order in which they were added.
func (ds Diagnostics) Sort() {
	sort.SliceStable(ds, func(i, j int) bool {
		a, b := ds[i].Subject, ds[j].Subject
		switch {
		case a == nil || b == nil:
			return a != nil && b == nil
		case a.Filename != b.Filename:
			return a.Filename < b.Filename
		default:
			return a.Start.Byte < b.Start.Byte
		}
	})
}

// Failure is an error whose diagnostic is already known. Err, when not nil, is
// the cause and is reached by errors.Is and errors.As.
type Failure struct {
	Diagnostic Diagnostic
	Err        error
}

// Told is a cause without a text of its own, for a [Failure] that has said all
// there is to say. It is found by errors.Is and errors.As as before.
func Told(err error) error { return told{err} }

type told struct{ error }

func (told) Error() string   { return "" }
func (t told) Unwrap() error { return t.error }

// Fail makes a [*Failure] from a cause. The detail is followed by the cause's text,
// unless it holds it already.
func Fail(err error, summary, remedy, format string, args ...any) *Failure {
	return &Failure{Diagnostic: Errorf(summary, remedy, format, args...), Err: err}
}

func (f *Failure) Error() string {
	cause := ""
	if f.Err != nil {
		cause = f.Err.Error()
	}
	if cause == "" || strings.Contains(f.Diagnostic.Detail, cause) {
		return f.Diagnostic.String()
	}
	return f.Diagnostic.String() + ": " + cause
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

type diagnosticsError struct{ list Diagnostics }

func (e diagnosticsError) Error() string {
	var lines []string
	for _, d := range e.list {
		if d.Severity == Error {
			lines = append(lines, d.String())
		}
	}
	return strings.Join(lines, "; ")
}

// From turns any error into diagnostics: the ones that it carries, each cause
// of a joined error, or a plain one made from its text.
func From(err error) Diagnostics {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all Diagnostics
		for _, e := range joined.Unwrap() {
			all = append(all, From(e)...)
		}
		return all
	}
	var list diagnosticsError
	if errors.As(err, &list) {
		return list.list
	}
	var f *Failure
	if errors.As(err, &f) {
		d := f.Diagnostic
		if cause := causeText(f.Err); d.Detail == "" {
			d.Detail = cause
		} else if !strings.Contains(d.Detail, cause) {
			d.Detail += ": " + cause
		}
		return Diagnostics{d}
	}
	return Diagnostics{{Severity: Error, Summary: err.Error(), Remedy: systemRemedy(err)}}
}

// systemRemedy is what to do about errors of the system that can come from
// anywhere; their text names the path.
func systemRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "Free space on the file system of the path that is named."
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		return "Make the path that is named writable for this user, or run lvslab with sudo."
	}
	return ""
}

// causeText is what a cause adds to a message. A cause that is a message itself
// gives what is wrong: the remedy is the outer one's.
func causeText(err error) string {
	if err == nil {
		return ""
	}
	var inner *Failure
	if !errors.As(err, &inner) || !strings.Contains(err.Error(), inner.Error()) {
		return err.Error() // it tells another part of the story
	}
	d := From(inner)[0]
	if d.Detail == "" {
		return d.Summary
	}
	first, _, _ := strings.Cut(d.Detail, "\n") // what was said around it is the story of another message
	return d.Summary + ": " + strings.TrimSuffix(first, ".")
}

// FromHCL converts HCL's diagnostics. HCL has no field for the remedy: its
// detail is kept whole.
func FromHCL(in hcl.Diagnostics) Diagnostics {
	var out Diagnostics
	for _, h := range in {
		d := Diagnostic{Summary: h.Summary, Detail: h.Detail, Subject: h.Subject, Context: h.Context}
		if h.Severity == hcl.DiagWarning {
			d.Severity = Warning
		}
		out = append(out, d)
	}
	return out
}
