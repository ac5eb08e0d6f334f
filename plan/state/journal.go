package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/lvslab/lvslab/plan"
)

// Intent says what is about to be done. It is on the disk before it is begun.
type Intent struct {
	Seq uint64 `json:"seq"`
	// Op is create, update or delete; operations use names of their own for
	// their steps and loans.
	Op plan.Op `json:"op"`
	// Subject is the address of the resource or noun concerned.
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	// Resource is what is to be created or updated, as it would be recorded:
	// with it an interrupted call is looked for by its identity.
	Resource *Resource `json:"resource,omitempty"`
	// Data belongs to whoever wrote the intent: a loan keeps the baseline here.
	Data json.RawMessage `json:"data,omitempty"`
}

// line is one line of the journal: an intent, or the end of one.
type line struct {
	Intent
	End   string `json:"end,omitempty"` // ok or failed
	Error string `json:"error,omitempty"`
}

const (
	endOK     = "ok"
	endFailed = "failed"
)

// journal is the open journal. Only [Store] uses it, under its lock.
type journal struct {
	fsys    files
	path    string
	f       file
	size    int64
	next    uint64
	pending []Intent
}

// openJournal reads what an earlier process left. The journal is empty after
// every operation that ended in order, so it stays short.
func openJournal(fsys files, path string) (*journal, error) {
	b, err := fsys.read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j := &journal{fsys: fsys, path: path}
	j.pending, j.size, j.next, err = parseJournal(b)
	if err != nil {
		return nil, journalFailure(path, err)
	}
	return j, nil
}

// parseJournal returns the intents without an end, the length of the whole
// lines and the next sequence number. A last line that is cut short was being
// written when the machine stopped: its effect was not begun, so it is left out.
// Any other damage is an error.
func parseJournal(b []byte) (pending []Intent, size int64, next uint64, err error) {
	next = 1
	for n := 1; len(b) > 0; n++ {
		text, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			break
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, 0, 0, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case l.End == "" && l.Op != "" && l.Seq == next:
			pending = append(pending, l.Intent)
			next++
		case l.End != "" && l.Seq > 0 && l.Seq < next:
			pending = without(pending, l.Seq)
		default:
			return nil, 0, 0, fmt.Errorf("line %d: sequence number %d, expected %d", n, l.Seq, next)
		}
		size += int64(len(text)) + 1
		b = rest
	}
	return pending, size, next, nil
}

func without(in []Intent, seq uint64) []Intent {
	var out []Intent
	for _, i := range in {
		if i.Seq != seq {
			out = append(out, i)
		}
	}
	return out
}

// begin writes and syncs the intent and returns its sequence number.
func (j *journal) begin(in Intent) (uint64, error) {
	in.Seq, in.At = j.next, time.Now().UTC()
	if err := j.write(line{Intent: in}, true); err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	j.next++
	j.pending = append(j.pending, in)
	return in.Seq, nil
}

// end closes an intent. It is not synced: an end that is lost makes the next
// process look at something that is in order. When nothing is open any more
// the journal starts anew.
func (j *journal) end(seq uint64, failed error) error {
	j.pending = without(j.pending, seq)
	if len(j.pending) == 0 {
		return j.reset()
	}
	l := line{Intent: Intent{Seq: seq, At: time.Now().UTC()}, End: endOK}
	if failed != nil {
		l.End, l.Error = endFailed, failed.Error()
	}
	if err := j.write(l, false); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *journal) write(l line, sync bool) error {
	if err := j.open(); err != nil {
		return err
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	_, err = j.f.Write(b)
	if err == nil && sync {
		err = j.f.Sync()
	}
	if err != nil {
		// The line may stand there in part. Opening again cuts it off.
		return errors.Join(err, j.close())
	}
	j.size += int64(len(b))
	return nil
}

func (j *journal) open() error {
	if j.f != nil {
		return nil
	}
	f, err := j.fsys.extend(j.path, j.size, 0o600)
	if err != nil {
		return err
	}
	j.f = f
	return j.fsys.syncDir(filepath.Dir(j.path))
}

func (j *journal) reset() error {
	err := j.close()
	j.size, j.next = 0, 1
	if oerr := j.open(); err == nil {
		err = oerr
	}
	return err
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	return err
}
