package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) graphCommand() *cobra.Command {
	var o operation.GraphOptions
	c := &cobra.Command{
		Use:   "graph FILE|DIR|builtin:NAME",
		Short: "Print which block needs which, or draw the network",
		Example: `  lvslab graph --svg topology.hcl > lab.svg
  lvslab graph topology.hcl | dot -Tsvg > blocks.svg
  lvslab graph --format mermaid --resources topology.hcl
  lvslab graph --live topology.hcl | dot -Tsvg > live.svg`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Format != operation.GraphDot && o.Format != operation.GraphMermaid {
				return usageError{fmt.Errorf("--format is dot or mermaid, got %q; --svg draws the network", o.Format), c.CommandPath()}
			}
			if o.SVG && (o.Resources || o.Live || c.Flags().Changed("format")) {
				return usageError{errors.New("--svg draws the network: --format, --resources and --live are for the graph of blocks"), c.CommandPath()}
			}
			a.exit, err = operation.Graph(c.Context(), &a.settings, args[0], o)
			return err
		},
	}
	a.variableFlags(c.Flags())
	c.Flags().StringVar(&o.Format, "format", operation.GraphDot, "write for `TOOL`: dot (Graphviz) or mermaid")
	c.Flags().BoolVar(&o.Resources, "resources", false, "the resources that blocks become, instead of blocks")
	c.Flags().BoolVar(&o.Live, "live", false, "look at the lab, and show what of it exists, changed, is gone")
	c.Flags().BoolVar(&o.SVG, "svg", false, "draw the network as SVG: machines, addresses, tunnels")
	return c
}

func (a *app) consoleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "console FILE|DIR|builtin:NAME",
		Short: "Evaluate expressions against a topology",
		Long: `Read expressions from standard input, one a line, and print their values as an
output block would have them: addresses are those that the lab has or would get,
and what experiments yield is that of the last result. End with exit or Ctrl-D.
When standard input is no terminal, a wrong expression makes the exit code 1.`,
		Example: `  lvslab console topology.hcl
  echo 'backend.ns[*].address' | lvslab console topology.hcl`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			o := operation.ConsoleOptions{In: c.InOrStdin()}
			if term.IsTerminal(int(os.Stdin.Fd())) && !a.json {
				o.Prompt = func() { fmt.Fprint(os.Stderr, "> ") }
			}
			a.exit, err = operation.Console(c.Context(), &a.settings, args[0], o)
			return err
		},
	}
	a.variableFlags(c.Flags())
	return c
}
