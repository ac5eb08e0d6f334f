// Command lvslab provisions Linux Virtual Server labs from HCL topologies,
// runs scheduler experiments in them and leaves the evidence behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

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
	user := interruptible()
	defer user.stop()
	ctx := user.ctx
	app := &app{}
	app.settings.Abort = user.abort
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
	case readerGone(err):
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
