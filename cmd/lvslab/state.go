package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
)

func (a *app) stateCommand() *cobra.Command {
	c := &cobra.Command{Use: "state", Args: noSuchCommand, RunE: needsCommand, Short: "Look at what the state holds, and make it forget"}
	c.AddCommand(a.stateListCommand(), a.stateShowCommand(), a.stateRmCommand())
	return c
}

// needsCommand is the RunE of commands that only group others.
func needsCommand(c *cobra.Command, _ []string) error {
	return usageError{fmt.Errorf("%s needs one of its commands", c.CommandPath()), c.CommandPath()}
}

func (a *app) stateListCommand() *cobra.Command {
	var o operation.StateOptions
	c := &cobra.Command{
		Use:   "list [ADDRESS…]",
		Short: "Print the addresses of the resources that the state holds",
		Long: `Print the addresses of the resources that the state holds: all of them, or
those that belong to the blocks or resources named.`,
		Example: `  lvslab state list
  lvslab state list director.lb 'backend.ns[0]'`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Addresses = args
			a.exit, err = operation.StateList(c.Context(), &a.settings, o)
			return err
		},
	}
	labFlag(c, &o.Lab)
	return c
}

func (a *app) stateShowCommand() *cobra.Command {
	var o operation.StateOptions
	c := &cobra.Command{
		Use:   "show ADDRESS…",
		Short: "Print what the state holds of a block or resource",
		Example: `  lvslab state show service.dns
  lvslab state show 'backend.ns[0]/domain'`,
		Args: someAddresses,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Addresses = args
			a.exit, err = operation.StateShow(c.Context(), &a.settings, o)
			return err
		},
	}
	labFlag(c, &o.Lab)
	return c
}

func (a *app) stateRmCommand() *cobra.Command {
	var o operation.StateOptions
	c := &cobra.Command{
		Use:   "rm ADDRESS…",
		Short: "Forget a block or resource without touching what exists",
		Long: `Forget a block or resource, and what is within it, without touching what
exists. The next apply finds it by its mark and takes it up again, or makes it
anew where it differs.`,
		Example: `  lvslab state rm 'backend.ns[2]'`,
		Args:    someAddresses,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Addresses = args
			a.exit, err = operation.StateRemove(c.Context(), &a.settings, o)
			return err
		},
	}
	labFlag(c, &o.Lab)
	return c
}

// someAddresses asks for one address at least.
func someAddresses(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return exactly("an address (see 'lvslab state list')", 1)(c, args)
}

func labFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "lab", "", "the `LAB`, by name or topology, when several are here")
}

func (a *app) unlockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "force-unlock [LAB|FILE|DIR|builtin:NAME]",
		Short: "Clean up a lock whose holder has died",
		Long: `Clean up what the holder of a lab's lock left when it died. The lock itself is
the kernel's and ends with its process, so nothing is forced: while the holder
lives the command refuses and says who it is.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.ForceUnlock(c.Context(), &a.settings, first(args))
			return err
		},
	}
}
