package lang

import (
	"github.com/zclconf/go-cty/cty"
)

// Results is what the runs, and the proof before them, offer to checks and outputs.
type Results struct {
	// Experiments are keyed by the experiment's [addr.Noun.Name].
	Experiments map[string]ExperimentResult
	// Paths are those of each service that was proved, by its name.
	Paths map[string][]PathResult
}

// experiments and paths may be asked of nil results.
func (r *Results) experiment(name string) (ExperimentResult, bool) {
	if r == nil {
		return ExperimentResult{}, false
	}
	x, have := r.Experiments[name]
	return x, have
}

func (r *Results) paths(name string) ([]PathResult, bool) {
	if r == nil {
		return nil, false
	}
	p, have := r.Paths[name]
	return p, have
}

// PathResult is the way of one query of the proof and of its answer, as the machines
// on it saw them. Client and Backend are addresses in the topology; Tunnel is "" and
// the outer addresses are empty where nothing was around the query.
type PathResult struct {
	Client, VIP, Backend          string
	Tunnel                        string
	Encapsulations                int
	OuterSource, OuterDestination string
	Source                        string // of the answer
	StraightBack                  bool
	Fragmented                    bool
	Whole                         bool // no hop is missing
	Defects                       []string
}

var pathType = cty.Object(map[string]cty.Type{
	"client": cty.String, "vip": cty.String, "backend": cty.String, "tunnel": cty.String, "encapsulations": cty.Number,
	"outer_source": cty.String, "outer_destination": cty.String, "source": cty.String,
	"straight_back": cty.Bool, "fragmented": cty.Bool, "whole": cty.Bool, "defects": cty.List(cty.String),
})

func (p PathResult) value() cty.Value {
	defects := cty.ListValEmpty(cty.String)
	if len(p.Defects) > 0 {
		list := make([]cty.Value, len(p.Defects))
		for i, d := range p.Defects {
			list[i] = cty.StringVal(d)
		}
		defects = cty.ListVal(list)
	}
	return cty.ObjectVal(map[string]cty.Value{
		"client": cty.StringVal(p.Client), "vip": cty.StringVal(p.VIP), "backend": cty.StringVal(p.Backend),
		"tunnel": cty.StringVal(p.Tunnel), "encapsulations": cty.NumberIntVal(int64(p.Encapsulations)),
		"outer_source": cty.StringVal(p.OuterSource), "outer_destination": cty.StringVal(p.OuterDestination), "source": cty.StringVal(p.Source),
		"straight_back": cty.BoolVal(p.StraightBack), "fragmented": cty.BoolVal(p.Fragmented), "whole": cty.BoolVal(p.Whole), "defects": defects,
	})
}

func pathList(paths []PathResult) cty.Value {
	if len(paths) == 0 {
		return cty.ListValEmpty(pathType)
	}
	list := make([]cty.Value, len(paths))
	for i, p := range paths {
		list[i] = p.value()
	}
	return cty.ListVal(list)
}
