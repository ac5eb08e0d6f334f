package main

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) copyCommand() *cobra.Command {
	var o operation.CopyOptions
	c := &cobra.Command{
		Use:   "cp SOURCE… TARGET",
		Short: "Copy files to, from and between nodes",
		Long: `Copy files to, from and between nodes, also while an experiment runs. Files of
a node are written NODE:PATH; without a path it is the home directory. A target
may be several nodes.`,
		Example: `  lvslab cp director.lb:/proc/net/ip_vs_conn .
  lvslab cp -r zones backend.ns:/tmp`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) >= 2 {
				return nil
			}
			return exactly("a source and a target", 2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.From, o.To = args[:len(args)-1], args[len(args)-1]
			a.exit, err = operation.Copy(c.Context(), &a.settings, o)
			return err
		},
	}
	labFlag(c, &o.Lab)
	c.Flags().BoolVarP(&o.Recursive, "recursive", "r", false, "copy directories with what is in them")
	return c
}

func (a *app) captureCommand() *cobra.Command {
	o := operation.CaptureOptions{Stdout: os.Stdout, Stderr: os.Stderr}
	c := &cobra.Command{
		Use:   "capture NODE [-- FILTER…]",
		Short: "Show the packets at a node, or write them to a file",
		Long: `Show the packets at a node with tcpdump, a line for each, or write them to a
file, until Ctrl-C. FILTER is an expression of tcpdump.`,
		Example: `  lvslab capture director.lb -- port 53 or proto 4
  lvslab capture 'backend.ns[0]' --for 10s --write ns0.pcap
  lvslab capture client.c --write - | wireshark -k -i -`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Node, o.Filter = args[0], args[1:]
			// Ctrl-C is how a capture ends, and no interruption.
			signal.Reset(os.Interrupt)
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt)
			defer stop()
			code, err := operation.Capture(ctx, &a.settings, o)
			a.exit = operation.Exit(code)
			return err
		},
	}
	labFlag(c, &o.Lab)
	c.Flags().StringVarP(&o.Device, "interface", "i", "any", "the `DEVICE` in the guest")
	c.Flags().StringVarP(&o.Write, "write", "w", "", "write a pcap `FILE`, - for standard output")
	c.Flags().DurationVar(&o.For, "for", 0, "end after that `DURATION`, for example 10s")
	c.Flags().IntVarP(&o.Count, "count", "c", 0, "end after `N` packets")
	c.Args = func(c *cobra.Command, args []string) error {
		dash := c.ArgsLenAtDash()
		switch {
		case len(args) == 0 || dash == 0 || dash < 0 && len(args) > 1:
			return usageError{fmt.Errorf("%s takes one node, and a filter after --", c.CommandPath()), c.CommandPath()}
		case dash > 1:
			return exactly("one node before --", 1)(c, args[:dash])
		case o.For < 0 || o.Count < 0:
			return usageError{fmt.Errorf("--for and --count are not negative"), c.CommandPath()}
		}
		return nil
	}
	return c
}

func (a *app) sshConfigCommand() *cobra.Command {
	var lab string
	c := &cobra.Command{
		Use:   "ssh-config",
		Short: "Print a configuration for ssh, scp and Ansible",
		Long: `Print a configuration with which OpenSSH's programs reach the nodes of the lab,
and write it to .lvslab/<lab>/ssh/config, with the lab's key and the nodes' host
keys beside it.`,
		Example: `  lvslab ssh-config
  ssh -F .lvslab/demo/ssh/config ns-0`,
		Args: exactly("no arguments", 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			a.exit, err = operation.SSHConfig(c.Context(), &a.settings, lab, os.Stdout)
			return err
		},
	}
	labFlag(c, &lab)
	return c
}

func (a *app) sshProxyCommand() *cobra.Command {
	var lab string
	c := &cobra.Command{
		Use:   "ssh-proxy NODE",
		Short: "Join standard input and output to a node's SSH server",
		Long:  "Join standard input and output to a node's SSH server: what ssh-config's\nProxyCommand runs.",
		Args:  exactly("one node", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			// OpenSSH ends its proxy by SIGHUP. There is nothing to put in order.
			signal.Reset()
			a.exit, err = operation.SSHProxy(c.Context(), &a.settings, lab, args[0], os.Stdin, os.Stdout)
			return err
		},
	}
	labFlag(c, &lab)
	return c
}
