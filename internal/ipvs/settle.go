package ipvs

import (
	"context"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// settlePoll is the pause between two looks at counters that lag behind.
const settlePoll = 50 * time.Millisecond

const defaultSettle = 5 * time.Second

// Settled waits until the counters are right and returns them together with the
// connection table. The kernel adds up a service's counters every 2 s, so a
// reading right after a run shows zeros (EXP-B13); the totals are live. A
// reading is settled when the sums over the services and those over the
// destinations both equal the totals' increase since the baseline, and no
// packet came while they were read. On average that takes 1.2 s.
//
// A reading that has not settled in time is no error: Settled is false, for
// instance when a destination was removed during the run or when
// net.ipv4.vs.run_estimation is 0.
func (h *Handle) Settled(ctx context.Context, spec proto.IPVSSettleSpec) (proto.IPVSStats, error) {
	within := time.Duration(spec.WithinMS) * time.Millisecond
	if within <= 0 {
		within = defaultSettle
	}
	began := time.Now()
	for {
		st, err := h.look(ctx, spec.Baseline, time.Since(began) >= within)
		st.WaitedMS = time.Since(began).Milliseconds()
		if err != nil || st.Conns != nil {
			return st, err
		}
		if err := h.wait(ctx, settlePoll); err != nil {
			return st, err
		}
	}
}

// look takes one reading between two readings of the totals, and the connection
// table (then not nil) when it has settled or is the last one. Others may use the
// handle between two looks.
func (h *Handle) look(ctx context.Context, baseline proto.IPVSTotals, last bool) (proto.IPVSStats, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var st proto.IPVSStats
	before, err := h.k.totals()
	if err != nil {
		return st, err
	}
	if st.Services, err = h.read(ctx); err != nil {
		return st, err
	}
	after, err := h.k.totals()
	if err != nil {
		return st, err
	}
	st.Totals = minus(after, baseline)
	st.Settled = before == after && sumsEqual(st.Services, st.Totals)
	if st.Settled || last {
		if st.Conns, err = h.k.conns(); st.Conns == nil {
			st.Conns = []proto.IPVSConn{}
		}
	}
	return st, err
}

func minus(a, b proto.IPVSTotals) proto.IPVSTotals {
	return proto.IPVSTotals{Conns: a.Conns - b.Conns, InPackets: a.InPackets - b.InPackets, InBytes: a.InBytes - b.InBytes}
}

// sumsEqual says whether the services' and the destinations' counters both add
// up to the totals.
func sumsEqual(list []proto.IPVSService, t proto.IPVSTotals) bool {
	var services, destinations proto.IPVSTotals
	add := func(to *proto.IPVSTotals, c proto.IPVSCounters) {
		to.Conns += c.Conns
		to.InPackets += c.InPackets
		to.InBytes += c.InBytes
	}
	for _, s := range list {
		add(&services, s.Stats)
		for _, d := range s.Destinations {
			add(&destinations, d.Stats)
		}
	}
	return services == t && destinations == t
}
