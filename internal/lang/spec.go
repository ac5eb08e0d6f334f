package lang

import "github.com/lvslab/lvslab/internal/addr"

// argSpec describes one argument of a block.
type argSpec struct {
	name     string
	required bool
	phase    phase
	// handle says that a block is expected, not a value: a reference to a
	// whole block creates no edge there.
	handle bool
}

// blockSpec describes one block type: the grammar in one table, from which
// the parser, its suggestions and the phases are derived.
type blockSpec struct {
	name   string
	label  string // what the label says, for messages; "" = the block has none
	args   []argSpec
	blocks []nestedSpec
	// instances says that count and for_each are allowed.
	instances bool
	// open says that any argument is allowed (locals).
	open bool
}

// nestedSpec is a block inside a block. Max 0 means any number.
type nestedSpec struct {
	spec     *blockSpec
	min, max int
}

func (s *blockSpec) arg(name string) (argSpec, bool) {
	for _, a := range s.args {
		if a.name == name {
			return a, true
		}
	}
	return argSpec{}, false
}

func (s *blockSpec) nested(name string) (nestedSpec, bool) {
	for _, n := range s.blocks {
		if n.spec.name == name {
			return n, true
		}
	}
	return nestedSpec{}, false
}

// opt, req and hnd make argument lists short to read.
func opt(p phase, names ...string) []argSpec {
	var out []argSpec
	for _, n := range names {
		out = append(out, argSpec{name: n, phase: p})
	}
	return out
}

func req(p phase, names ...string) []argSpec {
	var out []argSpec
	for _, n := range names {
		out = append(out, argSpec{name: n, phase: p, required: true})
	}
	return out
}

func hnd(p phase, required bool, name string) []argSpec {
	return []argSpec{{name: name, phase: p, required: required, handle: true}}
}

func args(lists ...[]argSpec) []argSpec {
	var out []argSpec
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// perInstance are the arguments of every block that may have instances.
// depends_on is read as references, never evaluated.
var perInstance = args(opt(phaseNames, "count", "for_each"), hnd(phaseNames, false, "depends_on"))

var (
	impairSpec = &blockSpec{name: "impair", args: opt(phaseArguments, "delay", "jitter", "loss", "duplicate", "reorder", "rate", "limit")}
	nicSpec    = &blockSpec{name: "nic", args: args(hnd(phaseAddresses, true, "network"), opt(phaseAddresses, "address")),
		blocks: []nestedSpec{{impairSpec, 0, 1}}}

	machineArgs = args(perInstance, opt(phaseArguments, "memory", "boot", "sysctl"), hnd(phaseArguments, false, "image"))
	nics        = []nestedSpec{{nicSpec, 1, 0}}

	validationSpec = &blockSpec{name: "validation", args: req(phaseNames, "condition", "error_message")}
	assertSpec     = &blockSpec{name: "assert", args: req(phaseResults, "condition", "error_message")}
	realServerSpec = &blockSpec{name: "real_server", args: args(hnd(phaseArguments, true, "backends"), hnd(phaseArguments, false, "tunnel"),
		opt(phaseArguments, "weight", "upper", "lower", "port"))}
	persistenceSpec = &blockSpec{name: "persistence", args: opt(phaseArguments, "timeout", "netmask")}
	factorSpec      = &blockSpec{name: "factor", label: "the argument that is varied", args: req(phaseArguments, "values")}
	loadSpec        = &blockSpec{name: "load", label: "the load generator", args: opt(phaseArguments, "queries", "sockets", "timeout", "rate", "protocol", "mode", "window")}
	failureSpec     = &blockSpec{name: "failure", args: args(hnd(phaseArguments, true, "backend"), req(phaseArguments, "at"), opt(phaseArguments, "noticed", "back"))}
	controlsSpec    = &blockSpec{name: "controls", args: opt(phaseArguments, "aa", "direct", "rotate")}
)

// rootSpecs are the blocks of a file.
var rootSpecs = []*blockSpec{
	{name: "lab", label: "the lab's name", args: opt(phaseNames, "description", "teardown", "required_version")},
	{name: "variable", label: "the variable's name", args: opt(phaseNames, "type", "default", "description", "sensitive", "nullable"),
		blocks: []nestedSpec{{validationSpec, 0, 0}}},
	{name: "locals", open: true},
	{name: "provider", label: "the provider's name", args: opt(phaseNames, "uri")},
	{name: string(addr.Network), label: "the network's name", instances: true, args: args(perInstance, req(phaseAddresses, "cidr"), opt(phaseArguments, "mtu")),
		blocks: []nestedSpec{{impairSpec, 0, 1}}},
	{name: string(addr.Client), label: "the client's name", instances: true, args: args(machineArgs, opt(phaseAddresses, "addresses")), blocks: nics},
	{name: string(addr.Director), label: "the director's name", instances: true, args: machineArgs, blocks: nics},
	{name: string(addr.Backend), label: "the backend's name", instances: true, args: args(machineArgs, hnd(phaseArguments, false, "serves"), opt(phaseArguments, "server")), blocks: nics},
	{name: string(addr.Router), label: "the router's name", instances: true, args: args(machineArgs, hnd(phaseArguments, false, "masquerade")), blocks: nics},
	{name: string(addr.Zone), label: "the zone's name in this file", args: req(phaseArguments, "name", "records")},
	{name: string(addr.Image), label: "the image's name", args: opt(phaseArguments, "kernel", "modules", "initrd", "disk")},
	{name: string(addr.Tunnel), label: "the tunnel's name", instances: true,
		args: args(perInstance, hnd(phaseNames, true, "from"), hnd(phaseNames, true, "to"), opt(phaseArguments, "type", "checksum", "family"))},
	{name: string(addr.Service), label: "the service's name", instances: true,
		args: args(perInstance, hnd(phaseArguments, true, "director"), opt(phaseAddresses, "vip", "vips"),
			opt(phaseArguments, "port", "protocol", "scheduler", "one_packet", "timeout", "forward", "flags", "fwmark")),
		blocks: []nestedSpec{{realServerSpec, 0, 0}, {persistenceSpec, 0, 1}}},
	{name: string(addr.Experiment), label: "the experiment's name",
		args: args(hnd(phaseArguments, true, "service"), hnd(phaseArguments, true, "clients"), hnd(phaseNames, false, "depends_on"),
			opt(phaseArguments, "iterations", "seed", "capture", "isolation", "equal_within", "start_within", "collapse")),
		blocks: []nestedSpec{{factorSpec, 0, 0}, {loadSpec, 1, 1}, {controlsSpec, 0, 1}}},
	{name: string(addr.Population), label: "the population's name",
		args: args(hnd(phaseArguments, true, "service"), req(phaseArguments, "clients", "rate"),
			opt(phaseArguments, "per_address", "ports", "duration", "skew", "seed")),
		blocks: []nestedSpec{{factorSpec, 0, 0}, {failureSpec, 0, 0}}},
	{name: "check", label: "the check's name", blocks: []nestedSpec{{assertSpec, 1, 0}}},
	{name: "output", label: "the output's name", args: args(req(phaseResults, "value"), opt(phaseNames, "description", "sensitive"),
		hnd(phaseNames, false, "depends_on"))},
	{name: "module", label: "the module's name", instances: true, open: true, args: args(perInstance, req(phaseNames, "source"))},
	{name: "moved", args: args(hnd(phaseNames, true, "from"), hnd(phaseNames, true, "to"))},
}

func rootSpec(name string) *blockSpec {
	for _, s := range rootSpecs {
		if s.name == name {
			return s
		}
	}
	return nil
}

func rootNames() []string {
	var out []string
	for _, s := range rootSpecs {
		out = append(out, s.name)
	}
	return out
}

// foreignBlocks are block types that a user may well try, with what to do instead.
var foreignBlocks = map[string][2]string{
	"terraform": {"this is not Terraform's configuration language", "For required_version use lab \"NAME\" { required_version = \"…\" }."},
	"resource":  {"lvslab has no resource blocks: its blocks are the nouns of the trade", "Write network, client, director, backend, tunnel, service or experiment."},
	"data":      {"lvslab has no data blocks: a topology reads nothing outside itself", "Use a variable."},
}
