package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) execCommand() *cobra.Command {
	o := operation.ExecOptions{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	c := &cobra.Command{
		Use:   "exec NODE -- COMMAND [ARG…]",
		Short: "Run a command on a node, also while an experiment runs",
		Long: `Run a command on a node, also while an experiment runs, and end with its exit
code. NODE may be several: a block (backend.ns), a kind (backend), all, or a
list with commas. Each line then begins with its node.`,
		Example: `  lvslab exec director.lb -- ipvsadm -Ln
  lvslab exec backend.ns -- named -v
  lvslab exec 'backend.ns[0]' -- ip -s link`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Node, o.Argv = args[0], args[1:]
			code, err := operation.Exec(c.Context(), &a.settings, o)
			a.exit = operation.Exit(code)
			return err
		},
	}
	labFlag(c, &o.Lab)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) >= 2 {
			return nil
		}
		return exactly("a node and a command after --", 2)(c, args)
	}
	return c
}

func (a *app) sshCommand() *cobra.Command {
	o := operation.ExecOptions{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Shell: true}
	c := &cobra.Command{
		Use:   "ssh NODE",
		Short: "Open a shell on a node",
		Example: `  lvslab ssh director.lb
  lvslab ssh 'backend.ns[0]'`,
		Args: exactly("one node", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Node = args[0]
			code, err := operation.Exec(c.Context(), &a.settings, o)
			a.exit = operation.Exit(code)
			return err
		},
	}
	labFlag(c, &o.Lab)
	return c
}

func (a *app) logsCommand() *cobra.Command {
	o := operation.LogsOptions{Out: os.Stdout}
	c := &cobra.Command{
		Use:   "logs NODE",
		Short: "Print a node's console",
		Long:  "Print a node's console, also when the lab is gone.",
		Args:  exactly("one node", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Node = args[0]
			a.exit, err = operation.Logs(c.Context(), &a.settings, o)
			return err
		},
	}
	labFlag(c, &o.Lab)
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on printing what comes, until Ctrl-C")
	return c
}
