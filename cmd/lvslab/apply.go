package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) applyCommand() *cobra.Command {
	o := operation.ApplyOptions{Confirm: confirm}
	c := &cobra.Command{
		Use:   "apply FILE|DIR|PLANFILE|builtin:NAME",
		Short: "Create the lab, run its experiments, take it down, leave the artifact",
		Long: `Create the lab, run what its experiments lack, seal the artifact, evaluate the
checks, and take the lab down as the lab block's teardown says.

Runs are made once: an interrupted study is continued with those that are
missing, and a larger number of iterations adds blocks to a complete one. When
nothing is missing, apply says so and takes down a lab that is still up. A lab
without experiments stays up. Apply asks only when it would replace or delete
something that exists.

Exit codes: 0 done, 1 error, 3 a check failed, 4 a run is not valid, 64 bad
usage, 130 interrupted.`,
		Example: `  lvslab apply topology.hcl
  lvslab apply --keep -var iterations=2 builtin:lvs-tun-dns`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := checkChoices(c, o.Choices); err != nil {
				return err
			}
			o.Chosen = chosen(c.Flags())
			a.exit, err = operation.Apply(c.Context(), &a.settings, args[0], o)
			return err
		},
	}
	f := c.Flags()
	a.choiceFlags(f, &o.Choices)
	f.BoolVar(&o.PlanOnly, "plan-only", false, "show the plan and stop")
	f.BoolVar(&o.AutoApprove, "auto-approve", false, "do not ask before replacing or deleting something that exists")
	f.StringVar(&o.JUnit, "junit", "", "also write checks and runs as JUnit XML to `FILE`")
	f.BoolVar(&o.Timings, "timings", false, "print when each phase was done, in seconds since the start")
	return c
}

func (a *app) planCommand() *cobra.Command {
	var o operation.PlanOptions
	c := &cobra.Command{
		Use:   "plan FILE|DIR|builtin:NAME",
		Short: "Show what apply would do",
		Long: `Show what apply would do: changes of resources, pending trials, and what the
lab needs of this machine. Nothing is created, and no lock is taken.`,
		Example: `  lvslab plan topology.hcl
  lvslab plan --out study.plan topology.hcl && lvslab apply study.plan`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := checkChoices(c, o.Choices); err != nil {
				return err
			}
			a.exit, err = operation.Plan(c.Context(), &a.settings, args[0], o)
			return err
		},
	}
	f := c.Flags()
	a.choiceFlags(f, &o.Choices)
	f.StringVar(&o.Out, "out", "", "save the plan to `FILE`, which apply carries out as it is")
	f.BoolVar(&o.DetailedExitCode, "detailed-exitcode", false, "exit 2 when there is something to do")
	return c
}

func (a *app) runCommand() *cobra.Command {
	o := operation.RunOptions{}
	c := &cobra.Command{
		Use:   "run FILE|DIR|builtin:NAME",
		Short: "Run the experiments on the lab that is up",
		Long: `Run the experiments on the lab that is up, whether or not their study is
complete, and leave it up. The lab must be as the topology says.`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Run(c.Context(), &a.settings, args[0], o)
			return err
		},
	}
	a.variableFlags(c.Flags())
	c.Flags().StringVar(&o.Results, "results", "results", "put artifacts below `DIR`")
	c.Flags().StringVar(&o.JUnit, "junit", "", "also write checks and runs as JUnit XML to `FILE`")
	return c
}

func (a *app) destroyCommand() *cobra.Command {
	o := operation.DestroyOptions{Confirm: confirm}
	c := &cobra.Command{
		Use:   "destroy [LAB|FILE|DIR|builtin:NAME]",
		Short: "Take the lab down and prove that nothing is left",
		Long: `Take the lab down and prove that nothing is left. Results, outputs and assigned
addresses stay. Without an argument: the only lab here, or the only one that
runs.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Destroy(c.Context(), &a.settings, first(args), o)
			return err
		},
	}
	c.Flags().BoolVar(&o.AutoApprove, "auto-approve", false, "do not ask; needed without a terminal")
	return c
}

func (a *app) sweepCommand() *cobra.Command {
	o := operation.SweepOptions{Confirm: confirm}
	c := &cobra.Command{
		Use:   "sweep [LAB…]",
		Short: "Find and remove what labs left on this machine, without their state",
		Long: `Look through this machine's registry of lab hypervisors and remove those that
no state knows, and what bears the mark of such a lab on a libvirt of your own,
if one is named. Labs that somebody works on are passed over, and so are labs
that have a state, unless they are named. What a killed process has left of a
template that it was making is removed, too.`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Labs = args
			a.exit, err = operation.Sweep(c.Context(), &a.settings, o)
			return err
		},
	}
	c.Flags().BoolVar(&o.AutoApprove, "auto-approve", false, "do not ask")
	c.Flags().StringVar(&o.Connect, "connect", "", "look on the libvirt at `URI`, too (default: LIBVIRT_DEFAULT_URI, as of virsh)")
	return c
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// confirm asks on the terminal; without one it cannot, and says what to pass.
func confirm(ctx context.Context, question string) (bool, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false, operation.ErrNoTerminal
	}
	fmt.Fprintf(os.Stderr, "\n%s\n  Only 'yes' is accepted: ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		return strings.TrimSpace(line) == "yes", nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
