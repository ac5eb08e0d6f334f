package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/ui"
)

// view is what a command shows through: people's or JSON.
type view interface {
	operation.Events
	Close()
}

// app holds what the commands share: the global flags, the view, the exit code.
type app struct {
	settings operation.Settings
	json     bool
	view     view
	exit     operation.Exit
}

// command builds the whole command tree.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "lvslab",
		Short: "Reproducible Linux Virtual Server labs",
		Long: `lvslab turns an HCL topology into real virtual machines with IPVS, IPIP and
BIND, runs scheduler experiments in them with dnsperf or a load generator of its
own, takes the lab down and leaves an artifact that can be checked line by line.

A topology is a FILE, a DIR with .hcl files, or builtin:NAME. Long flags may be
written with one dash, as in Terraform.`,
		Example: `  lvslab plan builtin:lvs-tun-dns
  lvslab apply --keep topology.hcl
  lvslab exec director.lb -- ipvsadm -Ln
  lvslab destroy`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.start(cmd) },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.settings.Chdir, "chdir", "", "work as if started in `DIR`")
	f.BoolVar(&a.json, "json", false, "print versioned JSON lines instead of text")
	f.BoolVar(&a.settings.Verbose, "verbose", false, "say why: advice with its place, reason and fix")
	f.DurationVar(&a.settings.LockTimeout, "lock-timeout", 0, "wait that `DURATION`, for example 30s, for a lab that another process works on")
	root.Args = noSuchCommand
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{err, c.CommandPath()} })
	root.AddCommand(
		a.applyCommand(), a.planCommand(), a.predictCommand(), a.runCommand(), a.destroyCommand(), a.sweepCommand(),
		a.validateCommand(), a.fmtCommand(), a.graphCommand(), a.consoleCommand(),
		a.showCommand(), a.stateCommand(), a.outputCommand(), a.unlockCommand(),
		a.execCommand(), a.sshCommand(), a.copyCommand(), a.captureCommand(), a.logsCommand(),
		a.sshConfigCommand(), a.sshProxyCommand(),
		a.verifyCommand(), a.compareCommand(), a.mergeCommand(), a.reproduceCommand(), a.conformanceCommand(),
		a.initCommand(),
		a.doctorCommand(), a.imageCommand(), a.versionCommand(),
	)
	return root
}

// start makes the view and goes to the directory asked for.
func (a *app) start(*cobra.Command) error {
	if a.json {
		a.view = jsonView{ui.NewJSON(os.Stdout)}
	} else {
		a.view = ui.NewHuman(os.Stdout, os.Stderr)
	}
	a.settings.Events = a.view
	a.settings.Started = time.Now()
	a.settings.Environ = os.Environ()
	if a.settings.Chdir != "" {
		if err := os.Chdir(a.settings.Chdir); err != nil {
			return fmt.Errorf("--chdir: %w", err)
		}
	}
	return nil
}

type jsonView struct{ *ui.JSON }

func (jsonView) Close() {}

// variableFlags adds -var and -var-file, kept in the order in which they stand
// on the command line: the later one wins, as in Terraform.
func (a *app) variableFlags(f *pflag.FlagSet) {
	f.Var(&variableFlag{&a.settings.Variables, false}, "var", "set an input variable, `NAME=VALUE` (repeatable)")
	f.Var(&variableFlag{&a.settings.Variables, true}, "var-file", "read input variables from `FILE` (repeatable)")
}

type variableFlag struct {
	into *[]operation.Variable
	file bool
}

func (v *variableFlag) String() string { return "" }
func (v *variableFlag) Type() string   { return "string" }
func (v *variableFlag) Set(s string) error {
	if v.file {
		*v.into = append(*v.into, operation.Variable{File: s})
		return nil
	}
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want NAME=VALUE, got %q", s)
	}
	*v.into = append(*v.into, operation.Variable{Name: name, Value: value})
	return nil
}

// noSuchCommand is the Args of commands that only group others.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	if s := c.SuggestionsFor(args[0]); len(s) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, s[0])
	}
	return usageError{err, c.CommandPath()}
}

// exactly is cobra.ExactArgs with a message that names what is missing.
func exactly(what string, n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usageError{fmt.Errorf("%s takes %s, got %d arguments", c.CommandPath(), what, len(args)), c.CommandPath()}
	}
}

// atMostOne is for commands whose lab can be found when it is not named.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return usageError{fmt.Errorf("%s takes at most one argument, got %d", c.CommandPath(), len(args)), c.CommandPath()}
}

// singleDash accepts Terraform's way of writing long flags (-var, -auto-approve):
// a single dash and more than one letter can mean nothing else here.
func singleDash(root *cobra.Command, args []string) []string {
	long := map[string]bool{}
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { long[f.Name] = true }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && len(name) > 1 && long[name] {
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}
