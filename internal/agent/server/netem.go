package server

import (
	"context"
	"errors"
	"math"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerNetem(s *Server) {
	Handle(s, proto.NetemApply, netemApply)
	Handle(s, proto.NetemRead, netemRead)
}

// netemDefaultLimit is the queue's length when none is asked for, as in tc(8).
const netemDefaultLimit = 1000

func netemApply(ctx context.Context, spec proto.NetemSpec) (proto.NetemSpec, error) {
	link, err := findLink(proto.LinkRef{Name: spec.Dev})
	if err != nil {
		return spec, err
	}
	if err := checkNetem(spec); err != nil {
		return spec, err
	}
	if spec == (proto.NetemSpec{Dev: spec.Dev}) {
		err = removeNetem(link)
	} else {
		err = setNetem(ctx, link, spec)
	}
	if err != nil {
		return spec, err
	}
	have, err := netemRead(ctx, proto.LinkRef{Name: spec.Dev})
	if err == nil && have != normalNetem(spec) {
		err = fail(proto.CodeMismatch, spec.Dev, "the impairment is %+v, set to %+v", have, spec)
	}
	return have, err
}

// checkNetem refuses what the kernel would silently ignore or misread.
func checkNetem(n proto.NetemSpec) error {
	switch {
	case n.DelayUS < 0 || n.DelayUS > math.MaxInt32 || n.JitterUS < 0 || n.JitterUS > n.DelayUS:
		return fail(proto.CodeInvalid, n.Dev, "delay %d µs with jitter %d µs: jitter needs a delay at least as long", n.DelayUS, n.JitterUS)
	case n.ReorderPct > 0 && n.DelayUS == 0:
		return fail(proto.CodeInvalid, n.Dev, "reordering needs a delay")
	case n.Limit < 0 || n.RateBits < 0 || n.RateBits%8 != 0:
		return fail(proto.CodeInvalid, n.Dev, "limit %d, rate %d bits a second: the rate is kept in whole bytes", n.Limit, n.RateBits)
	}
	for _, pct := range []float64{n.LossPct, n.DuplicatPct, n.ReorderPct} {
		if pct < 0 || pct > 100 {
			return fail(proto.CodeInvalid, n.Dev, "%g is no percentage", pct)
		}
	}
	return nil
}

func setNetem(ctx context.Context, link netlink.Link, n proto.NetemSpec) error {
	if err := loadModule(ctx, "sch_netem"); err != nil {
		return err
	}
	q := netlink.NewNetem(
		netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		netlink.NetemQdiscAttrs{
			Latency: uint32(n.DelayUS), Jitter: uint32(n.JitterUS), Limit: uint32(n.Limit), Rate64: uint64(n.RateBits / 8),
			Loss: float32(n.LossPct), Duplicate: float32(n.DuplicatPct), ReorderProb: float32(n.ReorderPct),
		})
	if err := netlink.QdiscReplace(q); err != nil {
		return linkError(n.Dev, "set netem", err)
	}
	return nil
}

func removeNetem(link netlink.Link) error {
	q, err := findNetem(link)
	if err != nil || q == nil {
		return err
	}
	if err := netlink.QdiscDel(q); err != nil && !errors.Is(err, unix.ENOENT) {
		return linkError(link.Attrs().Name, "remove netem", err)
	}
	return nil
}

func findNetem(link netlink.Link) (*netlink.Netem, error) {
	list, err := dump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(link) })
	if err != nil {
		return nil, linkError(link.Attrs().Name, "list queueing disciplines", err)
	}
	for _, q := range list {
		if n, ok := q.(*netlink.Netem); ok && n.Parent == netlink.HANDLE_ROOT {
			return n, nil
		}
	}
	return nil, nil
}

func netemRead(_ context.Context, ref proto.LinkRef) (proto.NetemSpec, error) {
	link, err := findLink(ref)
	if err != nil {
		return proto.NetemSpec{}, err
	}
	have := proto.NetemSpec{Dev: link.Attrs().Name}
	q, err := findNetem(link)
	if err != nil || q == nil {
		return have, err
	}
	have.DelayUS, have.JitterUS = ticksToUS(q.Latency), ticksToUS(q.Jitter)
	have.LossPct, have.DuplicatPct, have.ReorderPct = percent(q.Loss), percent(q.Duplicate), percent(q.ReorderProb)
	have.RateBits = int64(q.Rate64) * 8
	if q.Limit != netemDefaultLimit {
		have.Limit = int(q.Limit)
	}
	return have, nil
}

// tickNS is the kernel's unit of packet scheduling time, PSCHED_SHIFT = 6
// (include/net/pkt_sched.h): 64 ns.
const tickNS = 64

// ticksToUS rounds up: whole microseconds were rounded down to ticks.
func ticksToUS(ticks uint32) int64 { return (int64(ticks)*tickNS + 999) / 1000 }

// percent turns a fraction of 2³² into a percentage, in steps of one millionth
// of the whole.
func percent(fraction uint32) float64 { return wholePPM(float64(fraction) / math.MaxUint32 * 100) }

func wholePPM(pct float64) float64 { return math.Round(pct*1e4) / 1e4 }

// normalNetem is how netemRead returns a setting.
func normalNetem(n proto.NetemSpec) proto.NetemSpec {
	n.LossPct, n.DuplicatPct, n.ReorderPct = wholePPM(n.LossPct), wholePPM(n.DuplicatPct), wholePPM(n.ReorderPct)
	if n.Limit == netemDefaultLimit {
		n.Limit = 0
	}
	return n
}
