package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	Kernels []string // none or "" = that of the guests' image
	Long    bool     // cases that wait for minutes, too
	Fuzz    int      // random cases after the others
	Seed    uint64   // of the random cases
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

// Conformance holds the model of IPVS against the kernels of guests that it boots
// for that, one after the other. A difference makes the exit code 3.
func Conformance(ctx context.Context, s *Settings, o ConformanceOptions) (Exit, error) {
	if len(o.Kernels) == 0 {
		o.Kernels = []string{""}
	}
	var recipes []images.Recipe
	for _, k := range o.Kernels {
		r, err := images.ForKernel(k)
		if err != nil {
			return ExitError, err
		}
		recipes = append(recipes, r)
	}
	cases, err := conformance.Cases()
	if err != nil {
		return ExitError, err
	}
	return s.conformance(ctx, recipes, cases, o)
}

func (s *Settings) conformance(ctx context.Context, recipes []images.Recipe, cases []conformance.Case, o ConformanceOptions) (Exit, error) {
	var all conformanceReports
	exit := ExitDone
	for _, recipe := range recipes {
		r, err := s.conformanceOn(ctx, recipe, cases, o)
		if err != nil {
			return ExitError, err
		}
		all = append(all, r)
		if r.Differ > 0 || r.Random != nil && r.Random.Differ > 0 {
			exit = ExitCheckFailed
		}
	}
	raw, err := json.Marshal(all.data())
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "conformance", Text: all.text(o), Data: raw})
	return exit, nil
}

// conformanceOn boots a machine with one kernel and replays on it.
func (s *Settings) conformanceOn(ctx context.Context, recipe images.Recipe, cases []conformance.Case, o ConformanceOptions) (*conformanceReport, error) {
	m, report, err := s.bootForCases(ctx, recipe)
	if err != nil {
		return nil, err
	}
	defer m.Stop()
	began := time.Now()
	if err := report.replay(ctx, s, m, cases, o); err != nil {
		return nil, err
	}
	report.Seconds = time.Since(began).Seconds()
	return report, nil
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

// How long one case may take in the guest. It waits for 9 s at most, a long one
// for 11 minutes, beside others that have their turn.
const (
	replayWithin = time.Minute
	longWithin   = 20 * time.Minute
)

// replay carries the cases out, the random ones last.
func (r *conformanceReport) replay(ctx context.Context, s *Settings, m client.Caller, cases []conformance.Case, o ConformanceOptions) (err error) {
	within := replayWithin
	if o.Long {
		within = longWithin
	}
	on := func(ctx context.Context, script string) (proto.ReplayResult, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return client.Do(ctx, m, proto.Replay, proto.ReplaySpec{Script: script})
	}
	age, err := conformance.AgeOf(ctx, on)
	if err != nil {
		return err
	}
	r.Before2026 = age.Before2026
	done := 0
	r.Cases, err = conformance.RunCases(ctx, cases, conformance.Rules{Schedulers: r.Schedulers, Model: age, Long: o.Long}, on, func(c conformance.Outcome) {
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
