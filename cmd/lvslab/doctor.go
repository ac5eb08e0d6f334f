package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/internal/symptom"
)

// allSymptoms is the word for planting each symptom in turn.
const allSymptoms = "all"

func (a *app) doctorCommand() *cobra.Command {
	var inject string
	c := &cobra.Command{
		Use:   "doctor [FILE|DIR|builtin:NAME]",
		Short: "Name what this machine lacks, or what is wrong with a lab that is up",
		Long: `Without an argument: check what this machine has and name the remedy for what it
lacks. Exit 1 when labs cannot run.

With a topology: look at its lab, which must be up, and name what is wrong with
the way to its services: cause, evidence, remedy. Exit 3 when something is. The
guests are asked for addresses, tables and counters; the first client asks by
ARP who has each VIP; then one query goes to each backend. For these the service
is borrowed and made anew afterwards, so its connection table is empty then.

With --inject a symptom is planted on the lab, which must be healthy: it is
shown what is done, whether the look names it and nothing else, and how it is
taken back. That happens after Ctrl-C, too, and after a kill with the next
command. Exit 3 when it was not named. "all" plants one after the other of:
` + strings.Join(plantableNames(), ", ") + `.`,
		Example: `  lvslab doctor
  lvslab doctor topology.hcl
  lvslab doctor --inject rp-filter topology.hcl`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) (err error) {
			var names []symptom.Name
			if c.Flags().Changed("inject") {
				if names, err = symptomsOf(inject); err == nil && len(args) == 0 {
					err = errors.New("--inject needs a topology whose lab is up")
				}
				if err != nil {
					return usageError{err, c.CommandPath()}
				}
			}
			if len(args) == 0 {
				a.exit, err = operation.Doctor(c.Context(), &a.settings)
				return err
			}
			a.exit, err = operation.Symptoms(c.Context(), &a.settings, operation.DoctorOptions{Path: args[0], Inject: names})
			return err
		},
	}
	a.variableFlags(c.Flags())
	c.Flags().StringVar(&inject, "inject", "", "plant the symptom `NAME`, or all of them in turn, and see whether it is named")
	return c
}

// symptomsOf are the symptoms that a word stands for.
func symptomsOf(word string) ([]symptom.Name, error) {
	if word == allSymptoms {
		return symptom.Plantable, nil
	}
	for _, n := range symptom.Plantable {
		if string(n) == word {
			return []symptom.Name{n}, nil
		}
	}
	return nil, fmt.Errorf("--inject is one of %s, got %q", symptomNames(), word)
}

func symptomNames() string {
	return strings.Join(append(plantableNames(), allSymptoms), ", ")
}

func plantableNames() []string {
	words := []string{}
	for _, n := range symptom.Plantable {
		words = append(words, string(n))
	}
	return words
}
