package lang

import (
	"math"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
)

// attribute is one thing that expressions may ask of a noun.
type attribute struct {
	name string
	typ  cty.Type
	// from is the first phase in which it is known.
	from phase
}

var nicType = cty.Object(map[string]cty.Type{"network": cty.String, "address": cty.String, "addresses": cty.List(cty.String)})

var recordType = cty.Object(map[string]cty.Type{"name": cty.String, "type": cty.String, "ttl": cty.Number, "values": cty.List(cty.String)})

var machineAttributes = []attribute{
	{name: "id", typ: cty.String, from: phaseNames},
	{name: "address", typ: cty.String, from: phaseArguments},
	{name: "addresses", typ: cty.List(cty.String), from: phaseArguments},
	{name: "nic", typ: cty.List(nicType), from: phaseArguments},
}

// attributesOf lists the attributes by kind. id is the address as lvslab
// writes it, backend.ns[0]: the key of the maps that an experiment yields.
var attributesOf = map[addr.Kind][]attribute{
	addr.Client: machineAttributes, addr.Director: machineAttributes, addr.Backend: machineAttributes, addr.Router: machineAttributes,
	addr.Network: {
		{name: "id", typ: cty.String, from: phaseNames},
		{name: "cidr", typ: cty.String, from: phaseAddresses},
	},
	addr.Zone: {
		{name: "id", typ: cty.String, from: phaseNames},
		{name: "name", typ: cty.String, from: phaseArguments},
		{name: "records", typ: cty.List(recordType), from: phaseArguments},
	},
	addr.Image: {
		{name: "id", typ: cty.String, from: phaseNames},
		{name: "kernel", typ: cty.String, from: phaseArguments},
	},
	addr.Tunnel: {
		{name: "id", typ: cty.String, from: phaseNames},
		{name: "type", typ: cty.String, from: phaseArguments},
	},
	addr.Service: {
		{name: "id", typ: cty.String, from: phaseNames},
		{name: "vip", typ: cty.String, from: phaseArguments},
		{name: "vips", typ: cty.List(cty.String), from: phaseArguments},
		{name: "port", typ: cty.Number, from: phaseArguments},
		{name: "protocol", typ: cty.String, from: phaseArguments},
		{name: "scheduler", typ: cty.String, from: phaseArguments},
		{name: "one_packet", typ: cty.Bool, from: phaseArguments},
		{name: "forward", typ: cty.String, from: phaseArguments},
		{name: "paths", typ: cty.List(pathType), from: phaseResults},
	},
	addr.Experiment: {
		{name: "id", typ: cty.String, from: phaseNames},
		{name: "runs", typ: cty.Number, from: phaseResults},
		{name: "valid_runs", typ: cty.Number, from: phaseResults},
		{name: "unanswered", typ: cty.Number, from: phaseResults},
		{name: "answers_ok", typ: cty.Number, from: phaseResults},
		{name: "shares", typ: cty.Map(cty.Map(cty.Number)), from: phaseResults},
		{name: "decisions", typ: cty.Map(cty.Number), from: phaseResults},
		{name: "flags", typ: cty.Set(cty.String), from: phaseResults},
	},
}

func attributeOf(kind addr.Kind, name string) (attribute, bool) {
	for _, a := range attributesOf[kind] {
		if a.name == name {
			return a, true
		}
	}
	return attribute{}, false
}

func attributeNames(kind addr.Kind) []string {
	var out []string
	for _, a := range attributesOf[kind] {
		out = append(out, a.name)
	}
	return out
}

// ExperimentResult is what an experiment offers to checks and outputs. Shares
// and Decisions are keyed by treatment_id; the inner map of Shares by the
// backend's address (backend.ns[0]), as a fraction of answers_ok.
type ExperimentResult struct {
	Runs, ValidRuns       int
	Unanswered, AnswersOK int
	Shares                map[string]map[string]float64
	Decisions             map[string]float64
	Flags                 []string
}

// value renders the results as the attributes of an experiment.
func (r ExperimentResult) value(name string) cty.Value {
	switch name {
	case "runs":
		return cty.NumberIntVal(int64(r.Runs))
	case "valid_runs":
		return cty.NumberIntVal(int64(r.ValidRuns))
	case "unanswered":
		return cty.NumberIntVal(int64(r.Unanswered))
	case "answers_ok":
		return cty.NumberIntVal(int64(r.AnswersOK))
	case "decisions":
		return numberMap(r.Decisions)
	case "shares":
		if len(r.Shares) == 0 {
			return cty.MapValEmpty(cty.Map(cty.Number))
		}
		m := map[string]cty.Value{}
		for k, v := range r.Shares {
			m[k] = numberMap(v)
		}
		return cty.MapVal(m)
	}
	flags := make([]cty.Value, 0, len(r.Flags))
	for _, f := range r.Flags {
		flags = append(flags, cty.StringVal(f))
	}
	if len(flags) == 0 {
		return cty.SetValEmpty(cty.String)
	}
	return cty.SetVal(flags)
}

func numberMap(in map[string]float64) cty.Value {
	if len(in) == 0 {
		return cty.MapValEmpty(cty.Number)
	}
	m := map[string]cty.Value{}
	for k, v := range in {
		if math.IsNaN(v) { // 0 of 0: cty has no such number
			m[k] = cty.NullVal(cty.Number)
			continue
		}
		m[k] = cty.NumberFloatVal(v)
	}
	return cty.MapVal(m)
}

// handleAttr is the private attribute that makes an object a handle. No HCL
// identifier can spell it.
const handleAttr = "(handle)"
