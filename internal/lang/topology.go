package lang

import (
	"net/netip"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Topology is the whole file as plain data: every expression evaluated, every
// reference an address, every list in declared order. It is complete: nothing
// later needs the HCL source, apart from checks and outputs, which are
// evaluated after the runs.
type Topology struct {
	Lab         Lab
	Provider    Provider
	Networks    []Network
	Images      []Image
	Machines    []Machine
	Zones       []Zone
	Tunnels     []Tunnel
	Services    []Service
	Experiments []Experiment
	Populations []Population

	// Variables are the input variables as used, sensitive ones left out.
	Variables map[string]cty.Value

	// DependsOn are the explicit depends_on of a block's instances. Experiments
	// stand in an order that follows theirs.
	DependsOn map[addr.Noun][]addr.Noun

	// Places says where arguments stand in the source, keyed
	// "service.dns/scheduler", "director.lb/nic[0].address" and so on, for
	// messages that want to point at the argument and not at its block.
	Places map[string]diag.Range `json:"-"`
}

// Place is where an argument stands, or fallback when it was left out.
func (t *Topology) Place(noun addr.Noun, argument string, fallback diag.Range) diag.Range {
	if r, ok := t.Places[noun.String()+"/"+argument]; ok {
		return r
	}
	return fallback
}

// Teardown says when the lab is taken down after an apply.
type Teardown string

// The teardown policies. OnSuccess takes down after exit 0 or 3.
const (
	TeardownAlways    Teardown = "always"
	TeardownOnSuccess Teardown = "on-success"
	TeardownNever     Teardown = "never"
)

// Lab is the lab block. Without one the name is that of the file or directory.
type Lab struct {
	Name        string
	Description string
	Teardown    Teardown
	Range       diag.Range
}

// Provider is the provider "libvirt" block; URI "embedded" is the default.
type Provider struct {
	URI   string
	Range diag.Range
}

// Network is one isolated layer-2 segment.
type Network struct {
	Noun   addr.Noun
	CIDR   netip.Prefix
	MTU    int // bytes, 1500 when not given
	Impair *Impair
	Range  diag.Range
}

// Impair is what netem does on the egress of each guest NIC, one way.
type Impair struct {
	Delay     time.Duration `json:"delay,omitempty"`
	Jitter    time.Duration `json:"jitter,omitempty"`
	Loss      float64       `json:"loss,omitempty"`      // fraction, 0…1
	Duplicate float64       `json:"duplicate,omitempty"` // fraction, 0…1
	Reorder   float64       `json:"reorder,omitempty"`   // fraction, 0…1
	RateBits  int64         `json:"rate_bits,omitempty"` // bits a second, 0 = no limit
	Limit     int           `json:"limit,omitempty"`     // packets in the queue, 0 = netem's default of 1000
}

// Machine is a client, director, backend or router; its role is Noun.Kind.
type Machine struct {
	Noun   addr.Noun
	Memory int64     // bytes
	Image  addr.Noun // zero = the built-in image
	Boot   string    // "cold" or "restore"; "" = the default
	Sysctl map[string]string
	NICs   []NIC
	Serves []addr.Noun // zones, declared order
	Server string      // nsd, knot or unbound in the place of BIND, which is ""
	// Addresses is the number of addresses of a client's first NIC, 1 when not given.
	Addresses int
	// Masquerade is the network on which what a router sends on has the router's
	// own address; zero = none. Nobody on it has a way to what is behind the router.
	Masquerade addr.Noun
	Range      diag.Range
}

// Guest is what tells the images that machines boot apart: the zero value is the
// built-in one.
type Guest struct {
	Image  addr.Noun
	Server string
}

// Guest is what the machine boots.
func (m Machine) Guest() Guest { return Guest{m.Image, m.Server} }

// Image is what machines boot that do not boot the built-in image: the same
// guest with another kernel, or a disk of the user's with a system of its own.
// Paths are as the user wrote them.
type Image struct {
	Noun addr.Noun
	// Disk is the path of a disk image, qcow2 or raw; then all else is "".
	Disk string
	// Kernel is a Debian package (linux-image-…, with /RELEASE behind it where it
	// comes from another one), or the path of a kernel or of a kernel's tree:
	// see OwnKernel.
	Kernel string
	// Modules is the directory that the kernel's modules were installed to, with
	// lib/modules in it; Initrd an archive that is unpacked before lvslab's own.
	// Both are "" or belong to an own kernel.
	Modules, Initrd string
	Range           diag.Range
}

// OwnKernel reports whether the kernel is a file of the user's.
func (i Image) OwnKernel() bool { return isPath(i.Kernel) }

// NIC is one network card. Addresses[0] is the primary one.
type NIC struct {
	Network   addr.Noun
	Addresses []netip.Addr
	Impair    *Impair // the NIC's own, else the network's, else nil
	Range     diag.Range
}

// Address returns the machine's first address, the one that
// `backend.ns[0].address` yields.
func (m Machine) Address() netip.Addr { return m.NICs[0].Addresses[0] }

// Zone is an authoritative DNS zone. Records keep the declared order, in which
// queries cycle through their names.
type Zone struct {
	Noun    addr.Noun
	Name    string // without the final dot, lower case
	Records []Record
	Range   diag.Range
}

// Record is one RRset of a zone; Name is relative to the zone ("@" = the zone itself).
type Record struct {
	Name   string
	Type   string // upper case
	TTL    int    // seconds
	Values []string
}

// Tunnel is one tunnel between two machines.
type Tunnel struct {
	Noun     addr.Noun
	Type     string // ipip, gre or gue
	Port     uint16 // UDP port of gue, 0 for the others
	Checksum string // of the outer header: none, full, or remote (gue)
	Family   string // of the outer header: ipv4, ipv6, or empty when the topology leaves it open
	From, To addr.Noun
	// Local and Remote are the outer addresses seen from To: Local is To's.
	Local, Remote netip.Addr
	Range         diag.Range
}

// Timeouts are the kernel's IPVS timeouts, whole seconds; 0 = the kernel's default.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// Persistence makes a client's ports follow its first one.
type Persistence struct {
	Timeout time.Duration
	Netmask int // prefix length
}

// Service is one IPVS virtual service (one for each VIP).
type Service struct {
	Noun        addr.Noun
	Director    addr.Noun
	VIPs        []netip.Addr
	Port        uint16
	Protocol    string // udp or tcp
	Scheduler   string
	OnePacket   bool
	Flags       []string // sh-port, sh-fallback, mh-port, mh-fallback
	Timeouts    Timeouts
	Forward     string // tunnel, direct or masquerade
	Persistence *Persistence
	FWMark      uint32
	RealServers []RealServer // the kernel's list order, first = head
	Range       diag.Range
}

// RealServer is one destination of a service.
type RealServer struct {
	Backend addr.Noun
	Address netip.Addr
	Port    uint16
	Tunnel  addr.Noun // zero unless the service forwards by tunnel
	Weight  int
	Upper   int // threshold in entries, 0 = none
	Lower   int
	Range   diag.Range
}

// Factor names the arguments that an experiment may vary; see LANGUAGE.md.
type Factor struct {
	Name   string
	Values []cty.Value // of the factor's type, declared order
	Range  diag.Range
}

// Load is the load generator's block.
type Load struct {
	Kind     string // dnsperf or lvslab
	Queries  int    // per client and run
	Sockets  int    // source ports, 0 with Fresh
	Fresh    bool   // a source port of its own for each query; lvslab only
	Mode     string // closed or open; lvslab only
	Window   int    // queries outstanding in a closed loop; lvslab only
	Timeout  time.Duration
	Rate     float64 // queries a second, 0 = as fast as answers come
	Protocol string  // udp or tcp
	Range    diag.Range
}

// Controls are extra treatments that show the noise floor.
type Controls struct{ AA, Direct, Rotate bool }

// The values of isolation: what keeps one run from what the run before has left.
const (
	// IsolationFlush empties the director's IPVS and makes the services anew.
	IsolationFlush = "flush"
	// IsolationRestore also makes the director itself anew before each run.
	IsolationRestore = "restore"
	// IsolationRestoreAll makes every machine of the lab anew before each run.
	IsolationRestoreAll = "restore-all"
)

// Experiment is one study on one service.
type Experiment struct {
	Noun       addr.Noun
	Service    addr.Noun
	Clients    []addr.Noun
	Iterations int // blocks
	Seed       int64
	Factors    []Factor
	Load       Load
	Capture    bool
	Isolation  string // one of the Isolation constants
	Controls   *Controls
	// EqualWithin is the factor within which times of two treatments count as
	// equal, above 1; 0 = nothing is said about equality. It is part of the study:
	// a margin that is chosen after a look at the times shows nothing.
	EqualWithin float64
	// StartWithin bounds the time between the first packets of the first and the last
	// client of a run; 0 = [DefaultStartWithin].
	StartWithin time.Duration
	// Collapse runs of treatments that are one treatment by the kernel's rules only
	// the first. StandsFor holds which those are, first → others, by treatment id;
	// it is a prediction's, and empty before one was made.
	Collapse  bool
	StandsFor map[string][]string
	Range     diag.Range
}

// Machine returns the machine with that address.
func (t *Topology) Machine(n addr.Noun) (Machine, bool) {
	for i := range t.Machines {
		if t.Machines[i].Noun == n {
			return t.Machines[i], true
		}
	}
	return Machine{}, false
}

// Network returns the network with that address.
func (t *Topology) Network(n addr.Noun) (Network, bool) {
	for i := range t.Networks {
		if t.Networks[i].Noun == n {
			return t.Networks[i], true
		}
	}
	return Network{}, false
}

// Service returns the service with that address.
func (t *Topology) Service(n addr.Noun) (Service, bool) {
	for i := range t.Services {
		if t.Services[i].Noun == n {
			return t.Services[i], true
		}
	}
	return Service{}, false
}

// ImageOf returns the image that a machine boots, false for the built-in one.
func (t *Topology) ImageOf(m Machine) (Image, bool) { return t.ImageNamed(m.Image) }

// ImageNamed returns an image by its noun.
func (t *Topology) ImageNamed(n addr.Noun) (Image, bool) {
	for _, i := range t.Images {
		if i.Noun == n {
			return i, true
		}
	}
	return Image{}, false
}

// Zone returns the zone with that address.
func (t *Topology) Zone(n addr.Noun) (Zone, bool) {
	for i := range t.Zones {
		if t.Zones[i].Noun == n {
			return t.Zones[i], true
		}
	}
	return Zone{}, false
}
