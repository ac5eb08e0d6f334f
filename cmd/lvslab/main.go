// Command lvslab provisions Linux Virtual Server labs from HCL topologies,
// runs scheduler experiments in them and leaves the evidence behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/ui"
)

func main() {
	hypervisor.Main() // does not return in the processes that hold a lab
	os.Exit(run(os.Args[1:]))
}

// run executes one command line and returns the exit code of LANGUAGE.md.
func run(args []string) int {
	ctx, stop := interruptible()
	defer stop()
	app := &app{}
	root := app.command()
	root.SetArgs(singleDash(root, args))
	err := root.ExecuteContext(ctx)
	if app.view != nil {
		app.view.Close()
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		app.badUsage(usage, args)
		return int(operation.ExitUsage)
	case errors.Is(err, syscall.EPIPE): // the reader has seen enough
	case err != nil:
		app.fail(explainInterrupt(ctx, err))
		if app.exit == operation.ExitDone {
			app.exit = operation.ExitError
		}
	}
	if errors.Is(context.Cause(ctx), operation.ErrInterrupted) {
		return int(operation.ExitInterrupted)
	}
	return int(app.exit)
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels in
// good order; the second ends the process at once, which is safe: what exists
// is in the state, and destroy finds it.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		signal.Notify(sig, syscall.SIGHUP) // the terminal is gone: end in good order, too
	}
	// A reader that goes away (| head) must not kill what has machines to look
	// after. With a handler, which children do not inherit, the write fails.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		if _, ok := <-sig; !ok {
			return
		}
		fmt.Fprintln(os.Stderr, "\nInterrupted: finishing the calls under way. Once more to stop at once.")
		cancel(operation.ErrInterrupted)
		if _, ok := <-sig; ok {
			fmt.Fprintln(os.Stderr, "\nStopped. 'lvslab destroy' cleans up what is left.")
			os.Exit(int(operation.ExitInterrupted))
		}
	}()
	return ctx, func() { signal.Stop(sig); close(sig); cancel(nil) }
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

// usageError is a command line that can't be right: exit code 64.
type usageError struct {
	error
	command string
}

// badUsage says what is wrong with a command line, as data when that was asked
// for, even where the flag was not reached.
func (a *app) badUsage(e usageError, args []string) {
	remedy := fmt.Sprintf("Run '%s --help' for usage.", e.command)
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	if !slices.Contains(args, "--json") && !slices.Contains(args, "-json") {
		fmt.Fprintf(os.Stderr, "%s\n%s\n", e.Error(), remedy)
		return
	}
	d := diag.Errorf("Bad usage", remedy, "%s", e.Error())
	ui.NewJSON(os.Stdout).Emit(operation.DiagnosticEvent{Diagnostics: diag.Diagnostics{d}})
}

// fail shows an error as diagnostics, with snippets where the source is known.
func (a *app) fail(err error) {
	ds := diag.From(err).Merged()
	if a.view == nil {
		a.view = ui.NewHuman(os.Stdout, os.Stderr)
	}
	a.view.Emit(operation.DiagnosticEvent{Diagnostics: ds, Sources: a.settings.Sources()})
}

var _ cobra.PositionalArgs = exactly("", 0)
