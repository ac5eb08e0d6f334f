package state

import (
	"errors"
	"fmt"

	"github.com/lvslab/lvslab/internal/diag"
)

// Errors of reading and writing. They come wrapped in a [*diag.Failure] that
// names the file and the remedy; test with errors.Is.
var (
	// ErrNone: the lab has no state.
	ErrNone = errors.New("no state")
	// ErrMissing: state.json is gone, but the directory shows that there was one.
	ErrMissing = errors.New("state file is missing")
	// ErrUnreadable: state.json is not a state.
	ErrUnreadable = errors.New("state file is unreadable")
	// ErrNewer: a newer lvslab wrote it.
	ErrNewer = errors.New("state file is of a newer format")
	// ErrForgetting: a write would forget resources that nobody has proved gone.
	ErrForgetting = errors.New("state would forget resources that may exist")
	// ErrLineage: a write would change the lab's identity.
	ErrLineage = errors.New("state would change its lineage")
	// ErrJournal: journal.jsonl is damaged before its last line.
	ErrJournal = errors.New("journal is unreadable")
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("state is closed")
)

type newerError struct {
	version int
	lvslab  string
}

func (e *newerError) Error() string {
	return fmt.Sprintf("format %d, written by lvslab %s; this one knows up to %d", e.version, e.lvslab, Version)
}

// because is a sentinel with a text of its own: the diagnostic's summary has
// said already what the sentinel would say again.
type because struct {
	is, cause error
	text      string
}

func (e *because) Error() string   { return e.text }
func (e *because) Unwrap() []error { return []error{e.is, e.cause} }

func noneFailure(path string) error {
	return diag.Fail(&because{is: ErrNone, text: path + " does not exist"}, "no state", "run lvslab apply first", "")
}

func missingFailure(path, lab string) error {
	text := path + " is gone, but its backups or its journal are there: the lab may still be up"
	return diag.Fail(&because{is: ErrMissing, text: text}, "state file is missing",
		"put the newest file of its backups directory back, or run lvslab sweep "+lab+" and remove the directory", "")
}

func unreadableFailure(path string, cause error) error {
	text := path + ": " + cause.Error()
	var newer *newerError
	if errors.As(cause, &newer) {
		return diag.Fail(&because{ErrNewer, cause, text}, "state file is of a newer format", "use the lvslab that wrote it, or a newer one", "")
	}
	return diag.Fail(&because{ErrUnreadable, cause, text}, "state file is unreadable",
		"put the newest file of its backups directory in its place; lvslab sweep removes what is left of a lab without a state", "")
}

func journalFailure(path string, cause error) error {
	return diag.Fail(&because{ErrJournal, cause, path + ": " + cause.Error()}, "journal is unreadable",
		"look at the lab with lvslab show, then rename the file and run lvslab destroy", "")
}

// writeFailure says what the file holds now, and that nothing is lost by it.
func writeFailure(path string, first bool, cause error) error {
	if first {
		return diag.Fail(cause, "state was not written", "make room or give write permission there, then run the same command again",
			"nothing was begun")
	}
	return diag.Fail(cause, "state was not written",
		"make room or give write permission there, then run the same command again: what was begun is in the journal",
		"%s still holds the previous state", path)
}

// intentFailure: what could not be written down is not begun.
func intentFailure(path string, cause error) error {
	return diag.Fail(cause, "intent was not written",
		"make room or give write permission there, then run the same command again", "%s; the call was not made", path)
}

func lockFailure(path string, cause error) error {
	return diag.Fail(cause, "the lab cannot be locked", "make room or give write permission there, then run the same command again",
		"%s; nothing was begun", path)
}

func dirFailure(dir string, cause error) error {
	return diag.Fail(cause, "the lab's directory cannot be made", "make room or give write permission there, then run the same command again",
		"%s; nothing was begun", dir)
}
