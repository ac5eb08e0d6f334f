package proto

// Replay carries a script of package internal/ipvsmodel out on the guest's
// kernel, in a network namespace of its own. IPVS and the schedulers that the
// script names have been loaded before ([IPVSPreflight]).
var Replay = Call[ReplaySpec, ReplayResult]{"ipvs.replay"}

// ReplaySpec is the script, one event a line (docs/model.md).
type ReplaySpec struct {
	Script string `json:"script"`
}

// ReplayResult is what the kernel did.
type ReplayResult struct {
	// Wrong says where that is not what the script says, one sentence a place,
	// each beginning with "line N: ".
	Wrong []string `json:"wrong,omitempty"`
	// Refused is why an event could not be carried out: the rest was not either.
	Refused string `json:"refused,omitempty"`
	// Trace has a line for each packet and where it went, then the connection
	// table, then what the destinations count.
	Trace []string `json:"trace"`
}
