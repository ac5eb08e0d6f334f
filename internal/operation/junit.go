package operation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/report"
)

// junitFits checks, before anything is made, that the file of --junit can be written;
// it makes nothing. "" is no file.
func junitFits(file string) error {
	if file == "" {
		return nil
	}
	at := file
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		err = syscall.EISDIR
	case errors.Is(err, fs.ErrNotExist):
		at = filepath.Dir(file)
		fallthrough
	case err == nil:
		err = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK, unix.AT_EACCESS)
	}
	if err == nil {
		return nil
	}
	return diag.Fail(&fs.PathError{Op: "write", Path: at, Err: err}, "Cannot write the JUnit XML",
		"Name a file in a directory that exists and is yours to write.", "--junit %s", file)
}

// writeJUnit writes the file of --junit, when it was asked for.
func (a *applying) writeJUnit(file []byte) error {
	if a.opts.JUnit == "" {
		return nil
	}
	if err := os.WriteFile(a.opts.JUnit, file, 0o644); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	a.junit = true
	return nil
}

// withJUnit writes the file for a failure, and returns that, with the file's own
// when it cannot be written.
func (a *applying) withJUnit(cause error) error {
	if cause == nil {
		return nil
	}
	if err := a.junitOfFailure(cause); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// junitOfFailure tells a CI server of a lab that failed before it had a result:
// without a file, or with that of yesterday, it would say that nothing is wrong.
func (a *applying) junitOfFailure(cause error) error {
	if a.opts.JUnit == "" || a.junit {
		return nil
	}
	message, remedy := cause.Error(), ""
	for err := cause; message == "" && err != nil; { // what was told already has no text
		if err = errors.Unwrap(err); err != nil {
			message = err.Error()
		}
	}
	if f, ok := errors.AsType[*diag.Failure](cause); ok {
		remedy = f.Diagnostic.Remedy
	}
	name := a.source // of a topology that cannot be read
	if a.study != nil {
		name = a.study.config.LabName()
	}
	b, err := report.JUnitOfFailure(name, message, remedy)
	if err != nil {
		return err
	}
	return a.writeJUnit(b)
}
