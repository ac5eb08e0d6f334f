package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
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
	synced  atomic.Uint64 // the last sequence number that is known to be safe
	// broken is the error of a sync. The kernel forgets what it could not write,
	// and the next sync says that all is well (Linux since 4.13, errseq_t): so
	// this journal takes no more intents.
	broken atomic.Pointer[error]
}

// compactAt is the size in bytes from which on a journal without open intents
// is begun anew. Closing it in order does so too.
const compactAt = 64 << 10

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

// begin writes the intent and returns its sequence number. It is safe only
// once sync has returned.
func (j *journal) begin(in Intent) (uint64, error) {
	if err := j.broken.Load(); err != nil {
		return 0, fmt.Errorf("journal, an earlier sync: %w", *err)
	}
	in.Seq, in.At = j.next, time.Now().UTC()
	if err := j.write(line{Intent: in}); err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	j.next++
	j.pending = append(j.pending, in)
	return in.Seq, nil
}

// sync makes the intents up to seq safe. Callers take turns; one sync serves
// all that were written before it began.
func (j *journal) sync(f file, seq, written uint64) error {
	if j.synced.Load() >= seq {
		return nil
	}
	if err := f.Sync(); err != nil {
		j.broken.Store(&err)
		return fmt.Errorf("journal: %w", err)
	}
	j.synced.Store(written)
	return nil
}

// end closes an intent. It is not synced: an end that is lost makes the next
// process look at something that is in order.
func (j *journal) end(seq uint64, failed error) error {
	l := line{Intent: Intent{Seq: seq, At: time.Now().UTC()}, End: endOK}
	if failed != nil {
		l.End, l.Error = endFailed, failed.Error()
	}
	if err := j.write(l); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.pending = without(j.pending, seq)
	if len(j.pending) == 0 && j.size > compactAt {
		return j.compact()
	}
	return nil
}

func (j *journal) write(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := j.open(); err != nil {
		return err
	}
	b = append(b, '\n')
	if _, err := j.f.Write(b); err != nil {
		// A part of the line may stand there. It must not stay before the next one.
		return errors.Join(err, j.f.Truncate(j.size))
	}
	j.size += int64(len(b))
	return nil
}

// open opens the file once. A last line that was cut short is cut off.
func (j *journal) open() error {
	if j.f != nil {
		return nil
	}
	f, err := j.fsys.extend(j.path, j.size, 0o600)
	if err != nil {
		return err
	}
	if err := j.fsys.syncDir(filepath.Dir(j.path)); err != nil {
		return errors.Join(err, f.Close())
	}
	j.f = f
	return nil
}

func (j *journal) compact() error {
	if j.size == 0 {
		return nil
	}
	if err := j.open(); err != nil {
		return err
	}
	if err := j.f.Truncate(0); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.size, j.next = 0, 1
	j.synced.Store(0)
	return nil
}

func (j *journal) close() error {
	var err error
	if len(j.pending) == 0 {
		err = j.compact()
	}
	if j.f != nil {
		err = errors.Join(err, j.f.Close())
		j.f = nil
	}
	return err
}
