package main

import (
	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) predictCommand() *cobra.Command {
	var o operation.PredictOptions
	c := &cobra.Command{
		Use:   "predict FILE|DIR|builtin:NAME",
		Short: "Say what the experiments can find, by the kernel's rules",
		Long: `Ask a model of IPVS what each treatment of each experiment will do, before
anything is started: who gets which share, how many decisions the scheduler has
to make, which treatments are one treatment, how long entries live. A population
is answered as well: what millions of clients would make of a service. No root
and no virtual machine is needed.`,
		Example: `  lvslab predict topology.hcl
  lvslab predict examples/millions.hcl
  lvslab predict --svg shares.svg builtin:lvs-tun-dns
  lvslab predict --json topology.hcl | jq '.data.experiments[]?.cells[].shares'`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Predict(c.Context(), &a.settings, args[0], o)
			return err
		},
	}
	a.variableFlags(c.Flags())
	c.Flags().StringVar(&o.SVG, "svg", "", "draw the shares into `FILE`")
	return c
}
