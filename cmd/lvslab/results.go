package main

import (
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
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Put two results side by side",
		Long: `Put two results side by side: which inputs differ, which outcomes differ in
which treatments, which verdicts only one of them has. Times are compared only
for results of one host under KVM; else the command says why it does not.`,
		Example: `  lvslab compare results/lab/20261202T021204Z-41d6 results/lab/latest`,
		Args:    exactly("two results", 2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Compare(c.Context(), &a.settings, args[0], args[1])
			return err
		},
	}
}
