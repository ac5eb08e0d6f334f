package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestReaderGone(t *testing.T) {
	stdout := func(err error) error { return &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: err} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"pipe without a reader": {fmt.Errorf("copy: %w", stdout(syscall.EPIPE)), true},
		"closed terminal":       {stdout(syscall.EIO), true},
		"full disk":             {stdout(syscall.ENOSPC), false},
		"broken connection":     {&net.OpError{Op: "write", Net: "unix", Err: os.NewSyscallError("write", syscall.EPIPE)}, false},
		"broken disk":           {&fs.PathError{Op: "write", Path: "state.json", Err: syscall.EIO}, false},
		"something else":        {errors.New("no"), false},
	} {
		if got := readerGone(c.err); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
