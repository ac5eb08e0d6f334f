package operation

import (
	"bytes"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// Where the file cannot be written is known before anything is made, and asking makes
// nothing.
func TestJUnitFits(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.xml")
	if err := os.WriteFile(old, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, fits := range map[string]bool{"": true, os.DevNull: true, old: true, filepath.Join(dir, "new.xml"): true,
		dir: false, filepath.Join(dir, "none/new.xml"): false, filepath.Join(old, "new.xml"): false, "/proc/sys/new.xml": false} {
		err := junitFits(path)
		if (err == nil) != fits {
			t.Errorf("%q: %v", path, err)
		}
		if err == nil {
			continue
		}
		if d := diag.From(err)[0]; d.Summary != "Cannot write the JUnit XML" || !strings.Contains(d.Detail, "--junit "+path) || d.Remedy == "" {
			t.Errorf("%q: %+v", path, d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("looking has made %v", left)
	}
}

// A lab that fails before it has a result leaves an error for the CI server, in place
// of what an earlier apply wrote there; a report that is written is left alone.
func TestJUnitOfFailure(t *testing.T) {
	c, ds := lang.Parse(lang.Source{Files: []lang.File{{Name: "a.hcl", Bytes: []byte(`lab "broken" {}`)}}})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	path := filepath.Join(t.TempDir(), "junit.xml")
	read := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Name   string `xml:"name,attr"`
			Errors int    `xml:"errors,attr"`
			Error  struct {
				Message string `xml:"message,attr"`
				Text    string `xml:",chardata"`
			} `xml:"testsuite>testcase>error"`
		}
		if err := xml.Unmarshal(b, &got); err != nil || got.Errors != 1 || got.Name != "broken" {
			t.Fatalf("%v: %s", err, b)
		}
		return got.Error.Message + " | " + got.Error.Text
	}
	a := &applying{study: &study{config: c}, opts: ApplyOptions{JUnit: path}}
	cause := diag.Fail(nil, "A guest does not answer", "Look at its console.", "backend.ns[0] is silent")
	for _, err := range []error{cause, diag.Told(cause)} {
		a.junit = false
		if err := a.junitOfFailure(err); err != nil {
			t.Fatal(err)
		}
		if got, want := read(), cause.Error()+" | Look at its console."; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := a.junitOfFailure(errors.New("later")); err != nil || read() == "later | " {
		t.Errorf("the file that was written is gone: %v", err)
	}
	a.opts.JUnit, a.junit = filepath.Join(path, "no"), false
	if err := a.junitOfFailure(cause); err == nil {
		t.Error("a file that cannot be written")
	}
}

// An apply that ends before its plan, here without a topology or with one that
// says nothing, leaves an error for the CI server as well.
func TestJUnitBeforeThePlan(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.hcl")
	if err := os.WriteFile(bad, []byte("lab {"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "no.hcl"), bad} {
		file := filepath.Join(t.TempDir(), "junit.xml")
		exit, err := Apply(t.Context(), &Settings{}, path, ApplyOptions{JUnit: file})
		if err == nil || exit != ExitError {
			t.Fatalf("%s: %v, %v", path, exit, err)
		}
		b, readErr := os.ReadFile(file)
		if readErr != nil || !bytes.Contains(b, []byte(`errors="1"`)) || !bytes.Contains(b, []byte(filepath.Base(path))) {
			t.Errorf("%s: %s %v", path, b, readErr)
		}
	}
}
