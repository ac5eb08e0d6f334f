package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/operation"
)

// giveUp is how long a command that was interrupted twice may take to cancel the
// calls under way and to write down that they are in doubt.
const giveUp = 3 * time.Second

// oneSignal is the time within which signals are one: timeout(1) sends its own to the
// command and then to its process group, and nobody presses Ctrl-C twice so quickly.
const oneSignal = 100 * time.Millisecond

// interruption is what the user's signals end.
type interruption struct {
	// ctx ends with the first signal: nothing further is begun.
	ctx context.Context
	// abort ends with the second: what is under way is cancelled.
	abort context.Context
	stop  func()
}

// interruptible listens to SIGINT, SIGTERM and SIGHUP. The first one ends the
// command in good order, the second cancels the calls under way, and the third,
// or a short time, ends the process. That is safe at any moment: each effect
// was written down before it was begun, and the next command looks for it.
func interruptible() interruption {
	ctx, cancel := context.WithCancelCause(context.Background())
	abort, cancelCalls := context.WithCancelCause(context.Background())
	all := make(chan os.Signal, 3)
	signal.Notify(all, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		signal.Notify(all, syscall.SIGHUP) // the terminal is gone: end in good order, too
	}
	sig := make(chan os.Signal, 3)
	go single(all, sig)
	// A reader that goes away (| head) must not kill what has machines to look
	// after. With a handler, which children do not inherit, the write fails.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		if _, ok := <-sig; !ok {
			return
		}
		fmt.Fprintln(os.Stderr, "\nInterrupted: finishing the calls under way. Once more to give them up.")
		cancel(operation.ErrInterrupted)
		if _, ok := <-sig; !ok {
			return
		}
		fmt.Fprintln(os.Stderr, "\nStopping: the calls under way are given up.")
		cancelCalls(operation.ErrInterrupted)
		select {
		case _, ok := <-sig:
			if !ok {
				return
			}
		case <-time.After(giveUp):
		}
		fmt.Fprintln(os.Stderr, "\nStopped. 'lvslab destroy' cleans up what is left.")
		os.Exit(int(operation.ExitInterrupted))
	}()
	return interruption{ctx, abort, func() { signal.Stop(all); close(all); cancel(nil); cancelCalls(nil) }}
}

// single hands on signals, and of those that come at one time the first.
func single(all <-chan os.Signal, out chan<- os.Signal) {
	defer close(out)
	var last time.Time
	for s := range all {
		if now := time.Now(); now.Sub(last) > oneSignal {
			last = now
			out <- s
		}
	}
}

// explainInterrupt gives the bare end of a context a text for people.
func explainInterrupt(ctx context.Context, err error) error {
	var known *diag.Failure
	bare := errors.Is(err, context.Canceled) || errors.Is(err, operation.ErrInterrupted)
	if errors.As(err, &known) || !bare || !errors.Is(context.Cause(ctx), operation.ErrInterrupted) {
		return err
	}
	return diag.Fail(diag.Told(err), "Interrupted", "The same command goes on from here; lvslab destroy takes down what is there.", "")
}

// readerGone reports whether an error is no more than that nobody reads the
// standard output any longer: a pipe's reader that has seen enough (EPIPE), a
// terminal that was closed (EIO). A connection to a machine that broke has the
// same number and is another matter.
func readerGone(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && write.Path == os.Stdout.Name() &&
		(errors.Is(write.Err, syscall.EPIPE) || errors.Is(write.Err, syscall.EIO))
}
