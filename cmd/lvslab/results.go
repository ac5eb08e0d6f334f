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
