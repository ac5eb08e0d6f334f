package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/operation"
)

// choiceFlags adds the flags that plan and apply share.
func (a *app) choiceFlags(f *pflag.FlagSet, c *operation.Choices) {
	a.variableFlags(f)
	f.BoolVar(&c.Keep, "keep", false, "leave the lab up afterwards, whatever its teardown policy")
	f.BoolVar(&c.Fresh, "fresh", false, "repeat the study though its result is complete, or was begun")
	f.StringVar(&c.Results, "results", "results", "artifacts are below `DIR`")
	f.Var(&c.Shard, "shard", "only the I-th of N shares of the blocks, `I/N`; merge joins the results")
	f.Var((*nounsFlag)(&c.Target), "target", "only this `NOUN` and what it needs; runs no experiments (repeatable)")
	f.Var((*nounsFlag)(&c.Replace), "replace", "make this `NOUN` anew (repeatable); of a service: without its connection entries")
	f.StringVar(&c.Boot, "boot", "", "how all machines come up, `HOW`: restore (clones of a saved one) or cold (booted); else as the topology says")
	f.BoolVar(&c.RefreshOnly, "refresh-only", false, "only compare the state with what exists; apply then writes it down")
	f.IntVar(&c.Parallelism, "parallelism", 0, "work on `N` resources at once (0: by cores, memory and accelerator)")
}

// checkChoices finds combinations that mean nothing.
func checkChoices(c *cobra.Command, o operation.Choices) error {
	bad := func(format string, args ...any) error {
		return usageError{fmt.Errorf(format, args...), c.CommandPath()}
	}
	switch o.Boot {
	case "", operation.BootCold, operation.BootRestore:
	default:
		return bad("--boot is restore or cold, got %q", o.Boot)
	}
	if o.Parallelism < 0 {
		return bad("--parallelism is 1 or more, or 0, got %d", o.Parallelism)
	}
	if !o.RefreshOnly {
		return nil
	}
	for _, name := range chosen(c.Flags()) {
		switch name {
		case "keep", "fresh", "shard", "target", "replace", "boot":
			return bad("--refresh-only changes nothing, so --%s has no meaning with it", name)
		}
	}
	if f := c.Flags().Lookup("out"); f != nil && f.Changed {
		return bad("--refresh-only makes no plan that could be saved: leave --out away")
	}
	return nil
}

// chosen returns the names of the choices that were made on the command line.
// How much is done at once is none: it says how and not what.
func chosen(f *pflag.FlagSet) []string {
	var out []string
	f.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "keep", "fresh", "results", "shard", "target", "replace", "boot", "refresh-only":
			out = append(out, f.Name)
		}
	})
	return out
}

// nounsFlag collects nouns, checked as they are read.
type nounsFlag []addr.Noun

func (v *nounsFlag) String() string {
	var out []string
	for _, n := range *v {
		out = append(out, n.String())
	}
	return strings.Join(out, ",")
}

func (v *nounsFlag) Type() string { return "NOUN" }

func (v *nounsFlag) Set(s string) error {
	n, err := addr.ParseNoun(s)
	if err == nil {
		*v = append(*v, n)
	}
	return err
}
