package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/version"
)

func (a *app) validateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate FILE|DIR|builtin:NAME",
		Short: "Check a topology without touching the host",
		Long: `Check a topology without touching the host: all errors at once, each with its
place and remedy. Variables without a default need a value.`,
		Args: exactly("one topology", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Validate(c.Context(), &a.settings, args[0])
			return err
		},
	}
	a.variableFlags(c.Flags())
	return c
}

func (a *app) fmtCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "fmt [FILE|DIR|-]",
		Short: "Rewrite topologies in the canonical layout",
		Long: `Rewrite a file, or the .hcl files of a directory (the working directory when
none is named), in the canonical layout, and print the names of those that
changed. With - standard input is written to standard output.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			path := first(args)
			if path == "-" {
				return a.fmtStdin(c, check)
			}
			changed, err := operation.Format(&a.settings, path, !check)
			for _, f := range changed {
				a.view.Emit(operation.NoticeEvent{Text: f})
			}
			if check && len(changed) > 0 {
				a.exit = operation.ExitCheckFailed
			}
			return err
		},
	}
	c.Flags().BoolVar(&check, "check", false, "change no file; exit 3 when one would change")
	return c
}

func (a *app) fmtStdin(c *cobra.Command, check bool) error {
	src, err := io.ReadAll(c.InOrStdin())
	if err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	out, err := operation.FormatSource(&a.settings, "<stdin>", src)
	if err != nil {
		return err
	}
	if check {
		if !bytes.Equal(src, out) {
			a.exit = operation.ExitCheckFailed
		}
		return nil
	}
	_, err = io.Copy(c.OutOrStdout(), bytes.NewReader(out))
	return err
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [LAB|FILE|DIR|builtin:NAME]",
		Short: "Show what the state says and whether the lab is up",
		Args:  atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.Show(c.Context(), &a.settings, first(args))
			return err
		},
	}
}

func (a *app) outputCommand() *cobra.Command {
	var o operation.OutputOptions
	c := &cobra.Command{
		Use:   "output [NAME]",
		Short: "Print the outputs of the last apply",
		Long: `Print the outputs of the last apply, also when the lab is gone. Sensitive ones
are masked unless they are named.`,
		Example: `  lvslab output
  lvslab output --raw NAME`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Name, o.JSON, o.Out = first(args), a.json, os.Stdout
			a.exit, err = operation.Outputs(c.Context(), &a.settings, o)
			return err
		},
	}
	labFlag(c, &o.Lab)
	c.Flags().BoolVar(&o.Raw, "raw", false, "print a string, number or bool without quotes")
	return c
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		Args: exactly("no arguments", 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if j, ok := a.view.(jsonView); ok {
				j.Hello() // the stream's first line says it
			} else {
				fmt.Fprintln(c.OutOrStdout(), "lvslab "+version.Version)
			}
			return nil
		},
	}
}

func (a *app) imageCommand() *cobra.Command {
	c := &cobra.Command{Use: "image", Args: noSuchCommand, RunE: needsCommand, Short: "Build, list and remove guest images"}
	var refresh bool
	var kernel string
	build := &cobra.Command{
		Use: "build", Short: "Build the guest image unless it is cached",
		Args: exactly("no arguments", 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			a.exit, err = operation.ImageBuild(c.Context(), &a.settings, kernel, refresh)
			return err
		},
	}
	build.Flags().StringVar(&kernel, "kernel", "", "Debian `PACKAGE` of another kernel, such as linux-image-6.12-cloud-amd64 or linux-image-cloud-amd64/bookworm-backports")
	build.Flags().BoolVar(&refresh, "refresh", false, "look for newer packages first")
	list := &cobra.Command{
		Use: "list", Short: "List the images in the cache",
		Args: exactly("no arguments", 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			a.exit, err = operation.ImageList(c.Context(), &a.settings)
			return err
		},
	}
	key := &cobra.Command{
		Use: "key [FILE|DIR|builtin:NAME]", Short: "Print what to keep a cache of images under",
		Long: `Print one word that stands for the recipes of the images that the topology's
machines boot, of the built-in one without a topology: the key of a CI's cache.
Another kernel or another lvslab that builds other images gives another word.`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.ImageKey(c.Context(), &a.settings, first(args))
			return err
		},
	}
	a.variableFlags(key.Flags())
	rm := &cobra.Command{
		Use: "rm KEY", Short: "Remove an image from the cache",
		Args: exactly("one image key (see 'lvslab image list')", 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			a.exit, err = operation.ImageRemove(c.Context(), &a.settings, args[0])
			return err
		},
	}
	c.AddCommand(build, key, list, a.pruneCommand(), rm)
	return c
}

func (a *app) pruneCommand() *cobra.Command {
	var o operation.ImagePruneOptions
	c := &cobra.Command{
		Use: "prune", Short: "Remove from the cache what no recipe leads to",
		Long: `Remove what this lvslab would not ask for again: images of other recipes or
that newer ones have replaced, initramfs files and templates with the agent of
another lvslab, and what interrupted builds left. What a running lab uses stays.`,
		Args: exactly("no arguments", 0),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.UnusedFor < 0 {
				return usageError{fmt.Errorf("--unused-for takes a duration above 0, such as 720h, not %s", o.UnusedFor), c.CommandPath()}
			}
			a.exit, err = operation.ImagePrune(c.Context(), &a.settings, o)
			return err
		},
	}
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say what would be removed")
	c.Flags().DurationVar(&o.UnusedFor, "unused-for", 0, "also images that no lab was started from for that `DURATION`, such as 720h")
	return c
}
