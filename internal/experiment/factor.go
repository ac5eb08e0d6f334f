package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// maxSockets is how many sockets one thread of dnsperf opens at most; more are
// silently adjusted by versions before 2.11.
const maxSockets = 256

// maxWeight is the largest weight that every reader of the kernel's list shows
// unharmed (ipvsadm's manual page; moby/ipvs reads 16 bits).
const maxWeight = 65535

// schedulers are those of Linux 6.12; which of them a guest's kernel has is
// found out by its agent.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "twos"}

// flagNames are the scheduler flags of a service.
var flagNames = []string{"mh-fallback", "mh-port", "sh-fallback", "sh-port"}

// scope is what a factor's value is judged against.
type scope struct {
	service lang.Service
	exp     lang.Experiment
}

// factor is one entry of the closed list: how a value changes the setting, how
// it is written in a treatment's id, and how in a run's name. An error says
// what the value should have been.
type factor struct {
	apply func(s *Setting, v cty.Value, in scope) error
	text  func(v cty.Value) string
	slug  func(text string) string
}

// factors is the closed list of docs/language.md.
var factors = map[string]factor{
	"scheduler":  {applyScheduler, scalarText, plainSlug},
	"one_packet": {applyOnePacket, scalarText, onePacketSlug},
	"sockets":    {applySockets, scalarText, prefixed("s")},
	"weights":    {applyWeights, listText, prefixed("w")},
	"order":      {applyOrder, listText, prefixed("o-")},
	"timeout":    {applyTimeout, scalarText, prefixed("t")},
	"queries":    {applyQueries, scalarText, prefixed("q")},
	"rate":       {applyRate, scalarText, prefixed("r")},
	"clients":    {applyClients, scalarText, prefixed("c")},
	"vips":       {applyVIPs, scalarText, prefixed("v")},
	"protocol":   {applyProtocol, scalarText, plainSlug},
	"flags":      {applyFlags, flagsText, plainSlug},
	"kernel":     {applyKernel, imageText, plainSlug},
}

// FactorNames returns the closed list of factors, sorted.
func FactorNames() []string {
	names := make([]string, 0, len(factors))
	for name := range factors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func applyScheduler(s *Setting, v cty.Value, _ scope) error {
	name, err := asString(v)
	if err != nil || !slices.Contains(schedulers, name) {
		return fmt.Errorf("must be one of %s", strings.Join(schedulers, ", "))
	}
	s.Scheduler = name
	return nil
}

func applyOnePacket(s *Setting, v cty.Value, _ scope) error {
	if !known(v) || v.Type() != cty.Bool {
		return fmt.Errorf("must be true or false")
	}
	s.OnePacket = v.True()
	return nil
}

func applySockets(s *Setting, v cty.Value, in scope) (err error) {
	if word, notWord := asString(v); notWord == nil && word == lang.SocketsFresh {
		if in.exp.Load.Kind != lang.LoadLVSLab {
			return fmt.Errorf(`needs load "lvslab": dnsperf opens its sockets once`)
		}
		s.Sockets, s.Fresh = 0, true
		return nil
	}
	s.Fresh = false
	s.Sockets, err = asInt(v, 1, maxSockets)
	return err
}

func applyQueries(s *Setting, v cty.Value, _ scope) (err error) {
	s.Queries, err = asInt(v, 1, math.MaxInt32)
	return err
}

func applyClients(s *Setting, v cty.Value, in scope) (err error) {
	s.Clients, err = asInt(v, 1, len(in.exp.Clients))
	return err
}

func applyVIPs(s *Setting, v cty.Value, in scope) (err error) {
	s.VIPs, err = asInt(v, 1, len(in.service.VIPs))
	return err
}

func applyRate(s *Setting, v cty.Value, _ scope) error {
	if !known(v) || v.Type() != cty.Number {
		return fmt.Errorf("must be a number of queries a second, 0 for no limit")
	}
	rate, _ := v.AsBigFloat().Float64()
	if rate < 0 || math.IsInf(rate, 0) {
		return fmt.Errorf("must be a number of queries a second, 0 for no limit")
	}
	s.Rate = rate
	return nil
}

func applyWeights(s *Setting, v cty.Value, in scope) error {
	want := len(in.service.RealServers)
	list, err := asInts(v, 0, maxWeight)
	if err != nil || len(list) != want {
		return fmt.Errorf("must be a list of %d whole numbers from 0 to %d, one for each real server in declared order", want, maxWeight)
	}
	s.Weights = list
	return nil
}

func applyOrder(s *Setting, v cty.Value, in scope) error {
	n := len(in.service.RealServers)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if word, err := asString(v); err == nil {
		switch word {
		case "declared":
		case "reversed":
			slices.Reverse(order)
		default:
			return fmt.Errorf(`must be "declared", "reversed" or a list of indexes`)
		}
		s.Order = order
		return nil
	}
	list, err := asInts(v, 0, n-1)
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(list)), order) {
		return fmt.Errorf("must hold each index from 0 to %d once; the first one becomes the list head", n-1)
	}
	s.Order = list
	return nil
}

func applyTimeout(s *Setting, v cty.Value, _ scope) error {
	text, err := asString(v)
	if err != nil {
		return fmt.Errorf(`must be a duration of whole seconds, like "300s"`)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d%time.Second != 0 {
		return fmt.Errorf(`must be a duration of whole seconds, like "300s"`)
	}
	if s.Protocol == "tcp" {
		s.Timeouts.TCP = d
	} else {
		s.Timeouts.UDP = d
	}
	return nil
}

func applyProtocol(s *Setting, v cty.Value, _ scope) error {
	name, err := asString(v)
	if err != nil || name != "udp" && name != "tcp" {
		return fmt.Errorf(`must be "udp" or "tcp"`)
	}
	s.Protocol = name
	return nil
}

func applyFlags(s *Setting, v cty.Value, _ scope) error {
	list, err := asStrings(v)
	for _, f := range list {
		if !slices.Contains(flagNames, f) {
			err = fmt.Errorf("%q is not a flag", f)
		}
	}
	if err != nil {
		return fmt.Errorf("must be a list of %s, or empty", strings.Join(flagNames, ", "))
	}
	slices.Sort(list)
	s.Flags = slices.Compact(list)
	return nil
}

// applyKernel takes the address of an image block, as internal/lang makes it.
func applyKernel(s *Setting, v cty.Value, _ scope) error {
	text, err := asString(v)
	n, bad := addr.ParseNoun(text)
	if err != nil || bad != nil || n.Kind != addr.Image {
		return fmt.Errorf("must be an image block")
	}
	s.Kernel = n.String()
	return nil
}

// imageText writes image.old as old.
func imageText(v cty.Value) string {
	return strings.TrimPrefix(scalarText(v), string(addr.Image)+".")
}

// scalarText writes a string, a bool or a number as it stands in an id.
func scalarText(v cty.Value) string {
	switch {
	case !known(v):
		return "?"
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return strconv.FormatBool(v.True())
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	}
	return "?"
}

// listText writes a list as 3:2:1; a comma would end the factor in an id.
func listText(v cty.Value) string {
	if !known(v) || !v.CanIterateElements() {
		return scalarText(v)
	}
	var parts []string
	for _, e := range v.AsValueSlice() {
		parts = append(parts, scalarText(e))
	}
	return strings.Join(parts, ":")
}

func flagsText(v cty.Value) string {
	if list, err := asStrings(v); err == nil && len(list) > 0 {
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ":")
	}
	return "none"
}

func plainSlug(text string) string { return slugText(text) }

func onePacketSlug(text string) string {
	if text == "true" {
		return "ops"
	}
	return "noops"
}

func prefixed(prefix string) func(string) string {
	return func(text string) string { return prefix + slugText(text) }
}

// slugText keeps what is safe in a file name and in a URL.
func slugText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '.'
	}, text)
}
