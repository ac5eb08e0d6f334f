package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// What timeout(1) sends, a signal to the process and one to its group, is one signal.
func TestSignalsAtOneTimeAreOne(t *testing.T) {
	all, out := make(chan os.Signal, 3), make(chan os.Signal, 3)
	done := make(chan struct{})
	go func() { single(all, out); close(done) }()
	all <- syscall.SIGTERM
	all <- syscall.SIGTERM
	time.Sleep(3 * oneSignal)
	all <- os.Interrupt
	close(all)
	<-done
	var got []os.Signal
	for s := range out {
		got = append(got, s)
	}
	if fmt.Sprint(got) != "[terminated interrupt]" {
		t.Errorf("handed on: %v", got)
	}
}

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
