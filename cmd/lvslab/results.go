package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify RESULT",
		Short: "Check a result: its files, its numbers, its verdicts",
		Long: `Check a result against itself: every file against its checksum, the plan
against what was run, the captures against the table of queries, every number of
runs.csv and backends.csv against the raw data, the verdicts and the report
against the tables. Nothing is changed. Exit 1 when anything does not follow.`,
		Example: `  lvslab verify results/lvs-tun-dns/latest`,
		Args:    exactly("one result", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Verify(c.Context(), &a.settings, args[0])
			return err
		},
	}
}

func (a *app) compareCommand() *cobra.Command {
	var o operation.CompareOptions
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Put two results side by side",
		Long: `Put two results side by side: which inputs differ, which outcomes differ in
which treatments, which verdicts only one of them has. Times are compared only
for results of one host under KVM; else the command says why it does not.`,
		Example: `  lvslab compare results/lab/20261202T021204Z-41d6 results/lab/latest`,
		Args:    exactly("two results", 2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Compare(c.Context(), &a.settings, args[0], args[1], o)
			return err
		},
	}
	c.Flags().BoolVar(&o.DetailedExitCode, "detailed-exitcode", false, "exit 3 when outcomes differ")
	return c
}

func (a *app) mergeCommand() *cobra.Command {
	o := operation.MergeOptions{Results: "results"}
	c := &cobra.Command{
		Use:   "merge RESULT…",
		Short: "Join the shares of a study, made with apply --shard, into one result",
		Long: `Join results that hold the shares of one study, made with apply --shard on
several machines, into a new result. It is sealed, reported on, verified and
compared like any other; runs.csv has the machine of each run as a column
more, factor_host. Results that are not of one study, blocks that are there
twice or not at all, and a share that is named twice are errors, and nothing
is written. The results named stay as they are. Checks are evaluated over all
runs; exit codes are those of apply.`,
		Example: `  lvslab apply --shard 1/2 --results one topology.hcl   # on one machine
  lvslab apply --shard 2/2 --results two topology.hcl   # on another
  lvslab merge one/lab/latest two/lab/latest -o results`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return nil
			}
			return usageError{fmt.Errorf("%s takes the results of all shares, got none", c.CommandPath()), c.CommandPath()}
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Merge(c.Context(), &a.settings, args, o)
			return err
		},
	}
	c.Flags().StringVarP(&o.Results, "results", "o", o.Results, "put the new result below `DIR`")
	c.Flags().StringVar(&o.JUnit, "junit", "", "also write checks and runs as JUnit XML to `FILE`")
	return c
}
