package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) conformanceCommand() *cobra.Command {
	var o operation.ConformanceOptions
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Hold the model of IPVS against a kernel",
		Long: `Boot one machine without a network and replay the cases of the model of IPVS
on its kernel: which backend each packet leaves for, what the connection table
holds. Prints which cases agree, which differ and which cannot be replayed. A
difference is shown with its first event and with what shows it again; the exit
code is then 3. With several kernels there is a machine for each, one after the
other, and a column for each. With the image in the cache no root is needed.
Nothing is left.`,
		Example: `  lvslab conformance
  lvslab conformance --fuzz 500 --seed 7
  lvslab conformance --kernel linux-image-cloud-amd64 \
      --kernel linux-image-6.12-cloud-amd64
  lvslab conformance --json | jq -r '.data.cases[]? | [.result, .case] | @tsv'`,
		Args: exactly("no arguments", 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Fuzz < 0 {
				return usageError{errors.New("--fuzz takes a number of cases, 0 or more"), c.CommandPath()}
			}
			a.exit, err = operation.Conformance(c.Context(), &a.settings, o)
			return err
		},
	}
	c.Flags().StringArrayVar(&o.Kernels, "kernel", nil, "the kernel of that Debian `PACKAGE`, such as linux-image-6.12-cloud-amd64; without it linux-image-cloud-amd64, Linux 6.1; repeatable, then a column for each")
	c.Flags().BoolVar(&o.Long, "long", false, "replay the cases that wait for minutes, too, all at the same time: 11 minutes")
	c.Flags().IntVar(&o.Fuzz, "fuzz", 0, "then `N` random cases, the model's word against the kernel's")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "`S` decides what the random cases are")
	return c
}
