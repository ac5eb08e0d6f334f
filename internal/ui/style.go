// Package ui is every byte that lvslab shows: for people, with colour and a
// live line where the output is a terminal, or as versioned JSON lines.
package ui

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Style is how text is dressed: colour or none, and where lines are broken.
type Style struct {
	Color bool
	Width int // columns
	Live  bool
}

// StyleFor looks at the output: colours and the live line only on a terminal,
// and no colours when NO_COLOR is set (no-color.org).
func StyleFor(w io.Writer) Style {
	s := Style{Width: 100}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Live = os.Getenv("TERM") != "dumb"
	_, noColor := os.LookupEnv("NO_COLOR")
	s.Color = s.Live && !noColor
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
		s.Width = min(w, 120)
	}
	return s
}

func (s Style) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold dresses text that must be found first.
func (s Style) Bold(t string) string { return s.paint("1", t) }

// Red is for errors.
func (s Style) Red(t string) string { return s.paint("1;31", t) }

// Yellow is for warnings.
func (s Style) Yellow(t string) string { return s.paint("33", t) }

// Green is for what went well.
func (s Style) Green(t string) string { return s.paint("32", t) }

// Dim is for what only some readers want.
func (s Style) Dim(t string) string { return s.paint("2", t) }
