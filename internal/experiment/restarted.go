package experiment

import (
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/load"
)

// Flags of what changed under a run; they make it invalid.
const (
	FlagCountersRestarted = "counters_restarted" // a counter began anew during the run: its increase is not known
	FlagClockJumped       = "clock_jumped"       // a clock that stamps packets was set during the run: its times are wrong
	FlagReportUnreadable  = "report_unreadable"  // the generator's report is truncated, foreign or of an unknown version
)

// clockTolerance is what two readings of a guest's clocks may differ beside
// their own error. Nothing slews the difference (see [proto.ClockReading]), so
// it is only there for the rounding of nanoseconds.
const clockTolerance = time.Millisecond

// judgeRestarts looks for counters that began anew between the two readings, and
// for clocks that were set. A reading that is missing has been said elsewhere.
func (out *measured) judgeRestarts(f *findings) {
	for _, p := range out.cast.parts(out.trial.Treatment.Setting) {
		b, before := out.before.counters[p.noun]
		a, after := out.after[p.noun]
		if before && after {
			judgeMachine(f, p.noun, b, a)
		}
	}
	stamping := slices.Clone(out.cast.only(out.trial.Treatment.Setting.Clients))
	if out.start != nil {
		stamping = append(stamping, out.cast.target(out.trial.Treatment.Setting))
	}
	for _, p := range stamping {
		b, a := out.before.counters[p.noun].Clock, out.after[p.noun].Clock
		if by := jump(b, a); by != 0 {
			f.broken(FlagClockJumped, "the clock of %s was set by %v during the run", p.noun, by)
		}
	}
	out.judgeIPVS(f)
}

// judgeMachine compares the readings of one guest.
func judgeMachine(f *findings, n addr.Noun, b, a proto.CounterSet) {
	if b.Boot != a.Boot {
		f.broken(FlagCountersRestarted, "%s was started anew during the run", n)
		return // and with it everything else
	}
	if b.Named != nil && a.Named != nil {
		switch {
		case b.Named.Started != a.Named.Started:
			f.broken(FlagCountersRestarted, "named on %s was started anew during the run: at %s, before at %s", n, a.Named.Started, b.Named.Started)
		case a.Named.Requests < b.Named.Requests || a.Named.Responses < b.Named.Responses:
			f.broken(FlagCountersRestarted, "named on %s counted %d requests and %d responses, before the run %d and %d: it began anew",
				n, a.Named.Requests, a.Named.Responses, b.Named.Requests, b.Named.Responses)
		}
	}
	for _, device := range sortedKeys(b.Links) {
		was, is := b.Links[device], a.Links[device]
		switch {
		case was.Index != is.Index:
			f.broken(FlagCountersRestarted, "%s on %s is another device since the run began: index %d, before %d", device, n, is.Index, was.Index)
		case is.RxPackets < was.RxPackets:
			f.broken(FlagCountersRestarted, "%s on %s has received %d packets, before the run %d: it began anew", device, n, is.RxPackets, was.RxPackets)
		}
	}
	for _, name := range []string{"Ip.InReceives", "Icmp.InMsgs", "Ip6.InReceives", "Icmp6.InMsgs"} {
		if _, back := load.Rise(b.SNMP[name], a.SNMP[name], snmpBits(name, a)); back {
			f.broken(FlagCountersRestarted, "%s of %s is %d, before the run %d: it began anew", name, n, a.SNMP[name], b.SNMP[name])
		}
	}
}

// snmpBits is the width of a counter of /proc/net/snmp: see [proto.CounterSet].
func snmpBits(name string, set proto.CounterSet) int {
	if name == "Ip.InReceives" || name == "Ip6.InReceives" {
		return 64
	}
	return set.LongBits
}

// judgeIPVS looks for services and destinations that were removed or made anew
// since they were read back. All their counters began at 0 there, so that none
// can go back: what is missing, and the totals, tell.
func (out *measured) judgeIPVS(f *findings) {
	if len(out.stats.Services) == 0 && len(out.cut) > 0 {
		return // the reading failed
	}
	if t := out.stats.Totals; int64(t.Conns) < 0 || int64(t.InPackets) < 0 || int64(t.InBytes) < 0 {
		f.broken(FlagCountersRestarted, "IPVS's totals are below those before the run: somebody has zeroed them, or loaded the module again")
	}
	after := map[proto.IPVSKey]proto.IPVSService{}
	for _, s := range out.stats.Services {
		after[s.IPVSKey] = s
	}
	for _, s := range out.before.fresh.Services {
		is, there := after[s.IPVSKey]
		if !there {
			f.broken(FlagCountersRestarted, "the %s was removed during the run", keyText(s.IPVSKey))
			continue
		}
		left := map[string]bool{}
		for _, d := range is.Destinations {
			left[d.Address.String()] = true
		}
		for _, d := range s.Destinations {
			if !left[d.Address.String()] {
				f.broken(FlagCountersRestarted, "the destination %s of the %s was removed during the run", d.Address, keyText(s.IPVSKey))
			}
		}
	}
}

// jump is by how much a clock was set between two readings, 0 when it was not or
// when a reading is missing.
func jump(before, after *proto.ClockReading) time.Duration {
	if before == nil || after == nil {
		return 0
	}
	by := time.Duration(after.OffsetNS - before.OffsetNS)
	if by.Abs() <= clockTolerance+time.Duration(before.WithinNS+after.WithinNS) {
		return 0
	}
	return by
}

// increase is by how much a 64-bit counter rose, 0 when it went back: then
// [measured.judgeRestarts] has made the run invalid.
func increase(before, after uint64) uint64 {
	n, _ := load.Rise(before, after, 64)
	return n
}
