package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lvslab/lvslab/internal/operation"
)

// commandsPage reads docs/commands.md as the text under each of its headings.
func commandsPage(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	page, heading := map[string]string{}, ""
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimLeft(line, "# ")
			page[heading] = ""
			continue
		}
		page[heading] += line + "\n"
	}
	return page
}

// visit walks the command tree without the root.
func visit(c *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		f(sub)
		visit(sub, f)
	}
}

func tree() *cobra.Command {
	root := (&app{}).command()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion") // made when there is something to complete
	return root
}

var (
	flagCell = regexp.MustCompile("(?m)^\\| (`-.*?) \\| ")
	flagName = regexp.MustCompile("`(-[^` ]+)")
)

// told lists the flags that the tables of a section tell, without dashes.
func told(section string) []string {
	var out []string
	for _, row := range flagCell.FindAllStringSubmatch(section, -1) {
		for _, m := range flagName.FindAllStringSubmatch(row[1], -1) {
			if name, long := strings.CutPrefix(m[1], "--"); long {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func names(flags *pflag.FlagSet) []string {
	var out []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			out = append(out, f.Name)
		}
	})
	slices.Sort(out)
	return out
}

// TestPageTellsTheCommands: every command has its section, headed by its line
// of usage, with exactly its flags.
func TestPageTellsTheCommands(t *testing.T) {
	page := commandsPage(t)
	if got, want := told(page["Global flags"]), append(names(tree().PersistentFlags()), "help"); !slices.Equal(got, sorted(want)) {
		t.Errorf("global flags: the page tells %v, the program has %v", got, want)
	}
	seen := 0
	visit(tree(), func(c *cobra.Command) {
		shell := c.Parent().Name() == "completion"
		if shell {
			if !strings.Contains(page["`lvslab completion`"], "`"+c.Name()+"`") && !strings.Contains(page["`lvslab completion`"], "completion "+c.Name()) {
				t.Errorf("%s is not mentioned", c.CommandPath())
			}
			if got := told(page["`lvslab completion`"]); !slices.Equal(got, names(c.LocalNonPersistentFlags())) {
				t.Errorf("%s: the page tells %v, the program has %v", c.CommandPath(), got, names(c.LocalNonPersistentFlags()))
			}
			return
		}
		usage := c.CommandPath()
		if _, args, ok := strings.Cut(c.Use, " "); ok && c.Name() != "help" {
			usage += " " + args
		}
		text, ok := page["`"+usage+"`"]
		if !ok {
			t.Errorf("docs/commands.md has no section `%s`", usage)
			return
		}
		seen++
		if c.Name() == "completion" {
			return
		}
		if got, want := told(text), names(c.LocalNonPersistentFlags()); !slices.Equal(got, want) {
			t.Errorf("%s: the page tells %v, the program has %v", c.CommandPath(), got, want)
		}
	})
	headings := 0
	for h := range page {
		if strings.HasPrefix(h, "`lvslab ") {
			headings++
		}
	}
	if headings != seen {
		t.Errorf("the page has %d sections of commands, the program %d commands", headings, seen)
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// TestPageTellsTheExitCodes compares the table with the constants.
func TestPageTellsTheExitCodes(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(commandsPage(t)["Exit codes"], -1)
	var got []string
	for _, r := range rows {
		got = append(got, r[1])
	}
	var want []string
	for _, e := range []operation.Exit{operation.ExitDone, operation.ExitError, operation.ExitChanges, operation.ExitCheckFailed,
		operation.ExitBroken, operation.ExitUsage, operation.ExitInterrupted} {
		want = append(want, strconv.Itoa(int(e)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has the codes %v, the program %v", got, want)
	}
}

// TestHelpTexts: short sentences without a full stop, no flag without words.
func TestHelpTexts(t *testing.T) {
	visit((&app{}).command(), func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Short[0] < 'A' || c.Short[0] > 'Z' {
			t.Errorf("%s: %q", c.CommandPath(), c.Short)
		}
		for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
			if len([]rune(line)) > 80 {
				t.Errorf("%s: a line of its help has more than 80 characters: %q", c.CommandPath(), line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}
