package ipvs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

const (
	nodest = SysctlPrefix + "expire_nodest_conn"
	// tablePoll is the pause between two looks at a table that is being emptied.
	tablePoll = 10 * time.Millisecond
	// estimatorPeriod is how old the counters of services may be (ip_vs_est.c
	// samples every 2 s), with a margin.
	estimatorPeriod = 2200 * time.Millisecond
	defaultEmpty    = 5 * time.Second
)

// Fresh gives the director a clean table and a clean scheduler: the steps 2 to
// 6 of the run contract. An empty table alone is not enough, because a service
// that is edited in place keeps its scheduler's memory.
//
//  1. All services are deleted, with expire_nodest_conn=1 so that the kernel
//     (5.9 or newer) drops their entries; the table is awaited empty.
//  2. The sysctls given are set, expire_nodest_conn among them or given back.
//  3. The services are created with their destinations in reverse order and
//     everything is read back: settings, order, no active, inactive or
//     persistent connection, no counter that has moved.
//  4. The live totals are read as the baseline of [Handle.Settled].
//
// No probe may go through a VIP afterwards. Anything that is not as it should
// be is an error, most often a [*MismatchError] or a [*TableNotEmptyError].
//
// The director belongs to the lab, so all services are deleted and not only
// those of the specification: one left over would keep entries alive.
func (h *Handle) Fresh(ctx context.Context, spec proto.IPVSFreshSpec) (proto.IPVSFreshState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var state proto.IPVSFreshState
	want, timeouts, err := freshWish(spec)
	if err != nil {
		return state, err
	}
	for _, s := range want {
		if err := h.k.loadScheduler(ctx, s.Scheduler); err != nil {
			return state, err
		}
	}
	rows, err := h.k.conns()
	if err != nil {
		return state, err
	}
	state.RowsFound = len(rows)
	if err := h.catchUp(ctx); err != nil {
		return state, err
	}
	began := time.Now()
	if err := h.empty(ctx, spec); err != nil {
		return state, err
	}
	state.WaitedMS = time.Since(began).Milliseconds()
	if err := h.create(ctx, want, timeouts); err != nil {
		return state, err
	}
	return state, h.proof(ctx, want, spec, &state)
}

// freshWish checks the services and finds the timeouts that all of them want.
func freshWish(spec proto.IPVSFreshSpec) ([]proto.IPVSService, proto.IPVSTimeouts, error) {
	var all proto.IPVSTimeouts
	var out []proto.IPVSService
	for _, s := range spec.Services {
		n := normalise(s)
		if err := validate(n); err != nil {
			return nil, all, err
		}
		t := n.Timeouts
		if conflict(all.TCP, t.TCP) || conflict(all.TCPFin, t.TCPFin) || conflict(all.UDP, t.UDP) {
			return nil, all, fmt.Errorf("%w %s: its timeouts %v differ from those of another service, %v; the kernel keeps one set for the director",
				ErrInvalid, Name(s.IPVSKey), t, all)
		}
		all = proto.IPVSTimeouts{TCP: cmp.Or(all.TCP, t.TCP), TCPFin: cmp.Or(all.TCPFin, t.TCPFin), UDP: cmp.Or(all.UDP, t.UDP)}
		if slices.ContainsFunc(out, func(o proto.IPVSService) bool { return o.IPVSKey == n.IPVSKey }) {
			return nil, all, fmt.Errorf("%w %s: it is there twice", ErrInvalid, Name(s.IPVSKey))
		}
		out = append(out, n)
	}
	for name := range spec.Sysctl {
		if !strings.HasPrefix(name, SysctlPrefix) || strings.ContainsAny(name, "/ ") {
			return nil, all, fmt.Errorf("%w: sysctl %q is not one of %s*", ErrInvalid, name, SysctlPrefix)
		}
	}
	return out, all, nil
}

func conflict(a, b int) bool { return a != 0 && b != 0 && a != b }

// catchUp waits until the counters of the services that are about to be
// deleted have caught up with their packets. A destination goes to a trash list
// and comes back with its counters zeroed at what the estimator had seen last:
// packets that it had not seen yet would turn up in the next run (EXP-C12). After
// a settled reading this costs nothing.
func (h *Handle) catchUp(ctx context.Context) error {
	var last proto.IPVSTotals
	for waited := time.Duration(0); waited < estimatorPeriod; waited += settlePoll {
		totals, err := h.k.totals()
		if err != nil {
			return err
		}
		list, err := h.read(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		if sumsEqual(list, minus(totals, h.baseline)) {
			return nil
		}
		if totals != last {
			last, waited = totals, 0
		}
		if err := h.wait(ctx, settlePoll); err != nil {
			return err
		}
	}
	return nil
}

// empty deletes all services, waits for the empty table and sets the sysctls.
func (h *Handle) empty(ctx context.Context, spec proto.IPVSFreshSpec) (err error) {
	before, err := h.k.sysctls()
	if err != nil {
		return err
	}
	old, ok := before[nodest]
	if !ok {
		return &MissingModuleError{Modules: []string{"ip_vs"}, Detail: "it has no sysctl " + nodest}
	}
	if err := h.sysctl(nodest, "1"); err != nil {
		return err
	}
	wish := map[string]string{nodest: old}
	maps.Copy(wish, spec.Sysctl)
	defer func() {
		for _, name := range slices.Sorted(maps.Keys(wish)) {
			if e := h.sysctl(name, wish[name]); err == nil {
				err = e
			}
		}
	}()
	if err := h.k.flush(); err != nil {
		return err
	}
	return h.awaitEmpty(ctx, time.Duration(spec.EmptyWithinMS)*time.Millisecond)
}

func (h *Handle) awaitEmpty(ctx context.Context, within time.Duration) error {
	if within <= 0 {
		within = defaultEmpty
	}
	for deadline := time.Now().Add(within); ; {
		rows, err := h.k.conns()
		if err != nil || len(rows) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return &TableNotEmptyError{Rows: len(rows), Example: rowText(rows[0])}
		}
		if err := h.wait(ctx, tablePoll); err != nil {
			return err
		}
	}
}

func rowText(c proto.IPVSConn) string {
	return fmt.Sprintf("%s %v → %v → %v %s, %d s left", c.Protocol, c.Client, c.Virtual, c.Dest, c.State, c.Expires)
}

// sysctl sets one value and reads it back.
func (h *Handle) sysctl(name, value string) error {
	value = strings.Join(strings.Fields(value), " ")
	if err := h.k.setSysctl(name, value); err != nil {
		return fmt.Errorf("setting %s to %q: %w", name, value, err)
	}
	now, err := h.k.sysctls()
	if err != nil {
		return err
	}
	if now[name] != value {
		return &MismatchError{Subject: name, What: "value", Want: value, Got: now[name]}
	}
	return nil
}

func (h *Handle) create(ctx context.Context, want []proto.IPVSService, t proto.IPVSTimeouts) error {
	if err := h.setTimeouts(ctx, t); err != nil {
		return err
	}
	for _, s := range want {
		if err := h.k.newService(s); err != nil {
			return err
		}
		if err := h.converge(s, nil); err != nil {
			return err
		}
	}
	return nil
}

// proof reads everything back and takes the baseline.
func (h *Handle) proof(ctx context.Context, want []proto.IPVSService, spec proto.IPVSFreshSpec, state *proto.IPVSFreshState) error {
	got, err := h.read(ctx)
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return &MismatchError{Subject: "IPVS", What: "number of services", Want: fmt.Sprint(len(want)), Got: fmt.Sprint(len(got))}
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g proto.IPVSService) bool { return g.IPVSKey == w.IPVSKey })
		if i < 0 {
			return fmt.Errorf("%s: %w", Name(w.IPVSKey), ErrNotFound)
		}
		if err := verify(w, got[i]); err != nil {
			return err
		}
		if err := untouched(got[i]); err != nil {
			return err
		}
		state.Services = append(state.Services, got[i])
	}
	if state.Sysctl, err = h.k.sysctls(); err != nil {
		return err
	}
	for name, value := range spec.Sysctl {
		if v := strings.Join(strings.Fields(value), " "); state.Sysctl[name] != v {
			return &MismatchError{Subject: name, What: "value", Want: v, Got: state.Sysctl[name]}
		}
	}
	if state.Baseline, err = h.k.totals(); err != nil {
		return err
	}
	h.baseline = state.Baseline
	return nil
}

// untouched says whether no packet has come to a service yet.
func untouched(s proto.IPVSService) error {
	if s.Stats != (proto.IPVSCounters{}) {
		return &MismatchError{Subject: Name(s.IPVSKey), What: "counters", Want: "zero", Got: fmt.Sprintf("%+v", s.Stats)}
	}
	for _, d := range s.Destinations {
		if d.Active != 0 || d.Inactive != 0 || d.Persistent != 0 || d.Stats != (proto.IPVSCounters{}) {
			return &MismatchError{Subject: Name(s.IPVSKey) + " → " + destName(d), What: "connections and counters", Want: "none",
				Got: fmt.Sprintf("%d active, %d inactive, %d persistent, %+v", d.Active, d.Inactive, d.Persistent, d.Stats)}
		}
	}
	return nil
}
