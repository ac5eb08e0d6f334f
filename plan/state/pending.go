package state

import (
	"errors"
	"io/fs"
)

// ReadPending returns the open intents of a lab's directory without taking its
// lock: those of a command that was killed, or of one that works right now. A lab
// without a journal has none. Damage wraps [ErrJournal].
func ReadPending(dir string) ([]Intent, error) {
	path := journalPath(dir)
	b, err := disk{}.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pending, _, _, err := parseJournal(b)
	if err != nil {
		return nil, journalFailure(path, err)
	}
	return pending, nil
}
