package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/conformance"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/machine"
)

// ConformanceOptions are conformance's flags.
type ConformanceOptions struct {
	Kernel string // "" = that of the guests' image
	Fuzz   int    // random cases after the others
	Seed   uint64 // of the random cases
}

// conformanceReport is what one kernel did.
type conformanceReport struct {
	Kernel      string   `json:"kernel"`  // release
	Image       string   `json:"image"`   // name and key
	IPVS        string   `json:"version"` // of IPVS
	Accelerator string   `json:"accelerator"`
	Schedulers  []string `json:"schedulers"` // that the kernel has
	// Before2026: the kernel counts overhead by the older formula.
	Before2026 bool                  `json:"overhead_before_2026"`
	Replayed   int                   `json:"replayed"`
	Differ     int                   `json:"differ"`
	Cases      []conformance.Outcome `json:"cases"`
	Random     *conformance.Random   `json:"random,omitempty"`
	Seconds    float64               `json:"seconds"` // of replaying
}

// allSchedulers are those of the model.
var allSchedulers = append(slices.Clone(conformance.Schedulers), "twos")

// Conformance holds the model of IPVS against the kernel of a guest that it
// boots for that. A difference makes the exit code 3.
func Conformance(ctx context.Context, s *Settings, o ConformanceOptions) (Exit, error) {
	recipe, err := images.ForKernel(o.Kernel)
	if err != nil {
		return ExitError, err
	}
	cases, err := conformance.Cases()
	if err != nil {
		return ExitError, err
	}
	return s.conformance(ctx, recipe, cases, o)
}

func (s *Settings) conformance(ctx context.Context, recipe images.Recipe, cases []conformance.Case, o ConformanceOptions) (Exit, error) {
	m, report, err := s.bootForCases(ctx, recipe)
	if err != nil {
		return ExitError, err
	}
	defer m.Stop()
	began := time.Now()
	if err := report.replay(ctx, s, m, cases, o); err != nil {
		return ExitError, err
	}
	report.Seconds = time.Since(began).Seconds()
	raw, err := json.Marshal(report)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "conformance", Text: report.text(o), Data: raw})
	if report.Differ > 0 || report.Random != nil && report.Random.Differ > 0 {
		return ExitCheckFailed, nil
	}
	return ExitDone, nil
}

// bootForCases starts the machine and asks what its kernel has.
func (s *Settings) bootForCases(ctx context.Context, recipe images.Recipe) (*machine.Machine, *conformanceReport, error) {
	cache, err := images.DefaultCacheDir()
	if err != nil {
		return nil, nil, err
	}
	img, text, err := s.prepareImage(ctx, recipe, cache)
	if err != nil {
		return nil, nil, err
	}
	s.phase(PhaseImage, "done", text)
	accel, why, err := hypervisor.ProbeAccelerator(ctx, cache, img.Kernel)
	if err != nil {
		return nil, nil, err
	}
	s.phase(PhaseBoot, "started", "one machine")
	m, err := machine.Start(ctx, machine.Spec{Node: "director.conformance", Image: img.Image, Initrd: img.withAgent, Accelerator: accel})
	if err != nil {
		return nil, nil, err
	}
	r := &conformanceReport{Kernel: m.Enrolled().Kernel, Image: img.Name + " " + img.Key, Accelerator: string(accel)}
	for _, name := range allSchedulers {
		info, err := client.Do(ctx, m, proto.IPVSPreflight, proto.IPVSNeeds{Schedulers: []string{name}})
		var missing *proto.Error
		switch {
		case err == nil:
			r.Schedulers, r.IPVS = append(r.Schedulers, name), info.Version
		case !errors.As(err, &missing) || missing.Code != proto.CodeUnsupported:
			m.Stop()
			return nil, nil, err
		}
	}
	s.phase(PhaseBoot, "done", fmt.Sprintf("Linux %s, %s (%s)", r.Kernel, accel, why))
	return m, r, nil
}

// replayWithin bounds one case in the guest; a case waits for 9 s at most.
const replayWithin = time.Minute

// replay carries the cases out, the random ones last.
func (r *conformanceReport) replay(ctx context.Context, s *Settings, m client.Caller, cases []conformance.Case, o ConformanceOptions) (err error) {
	on := func(ctx context.Context, script string) (proto.ReplayResult, error) {
		ctx, cancel := context.WithTimeout(ctx, replayWithin)
		defer cancel()
		return client.Do(ctx, m, proto.Replay, proto.ReplaySpec{Script: script})
	}
	age, err := conformance.AgeOf(ctx, on)
	if err != nil {
		return err
	}
	r.Before2026 = age.Before2026
	done := 0
	r.Cases, err = conformance.RunCases(ctx, cases, conformance.Rules{Schedulers: r.Schedulers, Model: age}, on, func(c conformance.Outcome) {
		done++
		s.phase(PhaseCases, "progress", fmt.Sprintf("%d of %d", done, len(cases)))
	})
	if err != nil {
		return err
	}
	for _, c := range r.Cases {
		switch c.Result {
		case conformance.Differs:
			r.Differ++
			r.Replayed++
		case conformance.Agrees:
			r.Replayed++
		}
	}
	s.phase(PhaseCases, "done", fmt.Sprintf("%d of %d replayed", r.Replayed, len(cases)))
	if o.Fuzz == 0 {
		return nil
	}
	for _, need := range conformance.Schedulers {
		if !slices.Contains(r.Schedulers, need) {
			return diag.Fail(nil, "No random cases for this kernel", "Leave --fuzz out.", "it has no %s, which they use", need)
		}
	}
	random, err := conformance.RunRandom(ctx, o.Seed, o.Fuzz, age, on, func(n int) {
		s.phase(PhaseCases, "progress", fmt.Sprintf("random, %d of %d", n, o.Fuzz))
	})
	r.Random = &random
	return err
}

// text is the table, then each difference with what shows it again.
func (r *conformanceReport) text(o ConformanceOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-14s  %-8s  CASE\n", "LINUX "+release(r.Kernel), "FROM")
	var differ []conformance.Outcome
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "%-14s  %-8s  %s", c.Result, c.Origin, c.Case)
		if c.Result == conformance.LeftOut {
			fmt.Fprintf(&b, " (%s)", c.Why)
		}
		b.WriteByte('\n')
		if c.Result == conformance.Differs {
			differ = append(differ, c)
		}
	}
	if r.Random != nil {
		differ = append(differ, r.Random.First...)
	}
	for _, c := range differ {
		fmt.Fprintf(&b, "\nDIFFERS: %s\n  %s\n  what shows it:\n", c.Case, c.Why)
		for _, l := range strings.Split(c.Script, "\n") {
			fmt.Fprintf(&b, "    %s\n", l)
		}
	}
	fmt.Fprintf(&b, "\nLinux %s, IPVS %s: %d of %s replayed, %s.", r.Kernel, r.IPVS, r.Replayed, count(len(r.Cases), "case"), verdictOn(r.Differ))
	if r.Random != nil {
		fmt.Fprintf(&b, "\nRandom cases of seed %d: %d with %s, %s.", r.Random.Seed, r.Random.Cases, count(r.Random.Packets, "packet"), verdictOn(r.Random.Differ))
		if r.Random.Differ > 0 {
			fmt.Fprintf(&b, " The same again: lvslab conformance --fuzz %d --seed %d", o.Fuzz, o.Seed)
		}
	}
	return b.String()
}

func verdictOn(differ int) string {
	switch differ {
	case 0:
		return "all agree"
	case 1:
		return "1 differs"
	}
	return fmt.Sprintf("%d differ", differ)
}

// release is a kernel's version without what the distribution adds.
func release(full string) string {
	head, _, _ := strings.Cut(full, "-")
	return head
}
