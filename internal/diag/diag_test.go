package diag

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

func at(file string, byteOffset int) *Range {
	return &Range{Filename: file, Start: hcl.Pos{Line: 1, Column: 1, Byte: byteOffset}}
}

func TestFromKeepsWhatErrorsCarry(t *testing.T) {
	cause := errors.New("connection refused")
	f := Fail(cause, "No contact", "Wait.", "tried %d times", 3)
	wrapped := fmt.Errorf("backend.ns[0]: %w", fmt.Errorf("outer: %w", f))
	if !errors.Is(wrapped, cause) {
		t.Error("the cause is lost")
	}
	ds := From(wrapped)
	if len(ds) != 1 || ds[0].Summary != "No contact" || ds[0].Remedy != "Wait." || !strings.Contains(ds[0].Detail, "tried 3 times") || !strings.Contains(ds[0].Detail, "connection refused") {
		t.Errorf("got %+v", ds)
	}
	both := From(errors.Join(f, errors.New("plain"), Diagnostics{Errorf("listed", "", "x")}.Err()))
	if len(both) != 3 || both[1].Summary != "plain" || both[2].Summary != "listed" {
		t.Errorf("joined errors: %+v", both)
	}
	if From(nil) != nil {
		t.Error("no error made a diagnostic")
	}
}

func TestFromNamesTheRemedyOfSystemErrors(t *testing.T) {
	full := fmt.Errorf("journal: %w", &os.PathError{Op: "write", Path: "/x/journal.jsonl", Err: syscall.ENOSPC})
	if d := From(full)[0]; !strings.Contains(d.Remedy, "Free space") || !strings.Contains(d.Summary, "/x/journal.jsonl") {
		t.Errorf("got %+v", d)
	}
	denied := &fs.PathError{Op: "open", Path: "/y", Err: syscall.EACCES}
	if d := From(denied)[0]; !strings.Contains(d.Remedy, "sudo") {
		t.Errorf("got %+v", d)
	}
}

func TestWarningsAreNoErrors(t *testing.T) {
	ds := Diagnostics{Warnf("careful", "", "x")}
	if ds.HasErrors() || ds.Err() != nil {
		t.Error("a warning stopped the operation")
	}
	if ds = append(ds, Errorf("bad", "Mend it.", "y")); ds.Err() == nil || strings.Contains(ds.Err().Error(), "careful") {
		t.Errorf("got %v", ds.Err())
	}
}

func TestSortByPlace(t *testing.T) {
	ds := Diagnostics{{Summary: "none"}, {Summary: "b9", Subject: at("b", 9)}, {Summary: "b1", Subject: at("b", 1)}, {Summary: "a5", Subject: at("a", 5)}}
	ds.Sort()
	var got []string
	for _, d := range ds {
		got = append(got, d.Summary)
	}
	if strings.Join(got, " ") != "a5 b1 b9 none" {
		t.Errorf("got %v", got)
	}
}
