package lang

import (
	"fmt"
	"math/big"

	"github.com/zclconf/go-cty/cty"
)

// The load generators. dnsperf is the default and the reference; lvslab is the
// agent's own, with known source ports and a record of every query.
const (
	LoadDNSPerf = "dnsperf"
	LoadLVSLab  = "lvslab"
)

// LoadKinds are all load generators.
var LoadKinds = []string{LoadDNSPerf, LoadLVSLab}

// SocketsFresh is the value of sockets that takes a source port of its own for
// each query.
const SocketsFresh = "fresh"

// The values of mode. A closed loop sends the next query when one is decided; an
// open one sends by the clock, whatever comes back.
const (
	ModeClosed = "closed"
	ModeOpen   = "open"
)

const (
	// defaultWindow is dnsperf's -q, too.
	defaultWindow = 100
	maxWindow     = 1000
	// mostAsked keeps the record of a run in a small guest's memory.
	mostAsked = 100_000
)

// sockets reads a number or "fresh".
func (r *reader) sockets(kind string) (int, bool) {
	if r.b.args["sockets"] == nil {
		return 1, false
	}
	res := r.raw("sockets")
	if !res.ok || !r.e.known(res, "sockets of "+r.owner("sockets")) {
		r.fail("sockets")
		return 1, false
	}
	v, _ := res.val.UnmarkDeep()
	if v.IsNull() || v.Type() != cty.String || v.AsString() != SocketsFresh {
		return int(r.whole("sockets", 1, 1, maxSockets)), false
	}
	if kind == LoadDNSPerf {
		r.complain("sockets", "Fresh ports with dnsperf", freshRemedy, "sockets of %s is \"fresh\", but dnsperf opens its sockets once.", r.owner("sockets"))
		return 1, false
	}
	return 0, true
}

const freshRemedy = `Use load "lvslab", which takes a source port for each query, or give a whole number from 1 to 256.`

// own reads what only the agent's generator has.
func (r *reader) own(l *Load) {
	if l.Kind != LoadLVSLab {
		for _, arg := range []string{"mode", "window"} {
			if r.b.args[arg] != nil {
				r.complain(arg, "Argument of another generator", fmt.Sprintf(`Use load "lvslab", or leave %s out.`, arg), "dnsperf has no %s.", arg)
			}
		}
		return
	}
	l.Mode = r.oneOf("mode", ModeClosed, ModeClosed, ModeOpen)
	switch {
	case l.Mode == ModeClosed:
		l.Window = int(r.whole("window", defaultWindow, 1, maxWindow))
	case r.b.args["window"] != nil:
		r.complain("window", "Window of an open loop", "Leave window out, or use mode = \"closed\".", "%s has a window, but an open loop sends by the clock.", r.owner("window"))
	}
}

// socketsValue is a value of the factor sockets. Whether the load can do it is
// checked where the load is known.
func socketsValue(v cty.Value) (cty.Value, string) {
	if v.Type() == cty.String && !v.IsNull() && v.AsString() == SocketsFresh {
		return v, ""
	}
	return wholeValue(1, maxSockets)(v)
}

// load checks the generator against the factors.
func (r *rules) load(x Experiment, varied map[string]bool) {
	l := x.Load
	for i, f := range x.Factors {
		arg := fmt.Sprintf("factor[%d].values", i)
		for _, v := range f.Values {
			switch {
			case f.Name == "sockets" && l.Kind == LoadDNSPerf && v.Type() == cty.String:
				r.fail(x.Noun, arg, f.Range, "Fresh ports with dnsperf", freshRemedy, "Factor \"sockets\" of %s has the value \"fresh\", but dnsperf opens its sockets once.", x.Noun)
			case f.Name == "rate" && l.Mode == ModeOpen && v.AsBigFloat().Sign() == 0:
				r.fail(x.Noun, arg, f.Range, "Open loop without a rate", "Give rates above 0, or use mode = \"closed\".", "Factor \"rate\" of %s has the value 0, but an open loop sends by the clock.", x.Noun)
			case f.Name == "queries" && l.Kind == LoadLVSLab && v.AsBigFloat().Cmp(big.NewFloat(mostAsked)) > 0:
				r.fail(x.Noun, arg, f.Range, "Too many queries", tooManyRemedy, "Factor \"queries\" of %s has the value %s.", x.Noun, render(v))
			}
		}
	}
	if l.Mode == ModeOpen && l.Rate == 0 && !varied["rate"] && !r.d.arg(x.Noun, "load[0].rate") {
		r.fail(x.Noun, "load[0].rate", l.Range, "Open loop without a rate", "Give the load a rate, or use mode = \"closed\".", "The load of %s is an open loop, which sends by the clock, and has no rate.", x.Noun)
	}
	if l.Kind == LoadLVSLab && l.Queries > mostAsked && !varied["queries"] {
		r.fail(x.Noun, "load[0].queries", l.Range, "Too many queries", tooManyRemedy, "The load of %s asks %d queries of each client.", x.Noun, l.Queries)
	}
}

const tooManyRemedy = `The generator keeps a record of every query in the client's memory: give it 100,000 queries at most, or use load "dnsperf".`
