package main

import (
	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) reproduceCommand() *cobra.Command {
	o := operation.ApplyOptions{Confirm: confirm}
	var from string
	c := &cobra.Command{
		Use:   "reproduce PAPER",
		Short: "Run the study of a paper and put it beside what it published",
		Long: `Run the study of a paper and put the result beside what the paper published,
with the reasons for the differences. PAPER is triac-2026: ten schedulers by
1,000 queries in five iterations, and two short studies that tell its
explanations apart. What is not published stays open.

It is an apply of builtin:PAPER with its exit codes; a study that is complete is
only shown.`,
		Example: `  lvslab reproduce triac-2026
  lvslab reproduce triac-2026 --from results/triac-2026/latest`,
		Args: exactly("one paper", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := checkChoices(c, o.Choices); err != nil {
				return err
			}
			o.Chosen = chosen(c.Flags())
			a.exit, err = operation.Reproduce(c.Context(), &a.settings, args[0], from, o)
			return err
		},
	}
	f := c.Flags()
	a.choiceFlags(f, &o.Choices)
	f.StringVar(&from, "from", "", "show this `RESULT` and run nothing")
	f.BoolVar(&o.PlanOnly, "plan-only", false, "show the plan and stop")
	f.BoolVar(&o.AutoApprove, "auto-approve", false, "do not ask before replacing or deleting something that exists")
	f.StringVar(&o.JUnit, "junit", "", "also write checks and runs as JUnit XML to `FILE`")
	f.BoolVar(&o.Timings, "timings", false, "print when each phase was done, in seconds since the start")
	return c
}

func (a *app) initCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Write a builtin topology to a file, to begin from",
		Long: `Write a builtin topology to NAME.hcl, to begin from. A file that exists is not
touched. Without a name: list them.`,
		Example: `  lvslab init
  lvslab init lvs-tun-dns --out lab.hcl`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Init(&a.settings, first(args), out)
			return err
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "write to `FILE`")
	return c
}
