// Package sighting makes out of frames that machines saw the ways that packets
// took: it reads the headers, joins what each machine saw of one query and its
// answer, and judges the way against what was asked for.
//
// Clocks of machines differ, so times are never compared between them: what left
// one machine is found at the next by its MAC addresses and headers.
package sighting

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
)

// Frame is one Ethernet frame as a machine's card sent or received it.
type Frame struct {
	Node   addr.Noun
	Device string
	Out    bool
	Time   time.Time // by the machine's own clock
	Length int       // of the whole frame, bytes
	Bytes  []byte    // its beginning
}

// Names of what a header is wrapped in.
const (
	IPIP = "ipip" // protocol 4 or 41 in an IP header (RFC 2003, RFC 2473, RFC 4213)
	GRE  = "gre"  // RFC 2784
	GUE  = "gue"  // draft-ietf-intarea-gue
)

// Header is one IP header of a packet, outermost first.
type Header struct {
	// Carries is the encapsulation that follows, "" for the innermost header.
	Carries     string     `json:"carries,omitempty"`
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	TTL         int        `json:"ttl"`
	Length      int        `json:"length"` // of the IP packet, bytes
	// Fragment says that the packet is a piece of a larger one.
	Fragment bool `json:"fragment,omitempty"`
}

// Legs of a path.
const (
	Query  = "query"
	Answer = "answer"
)

// Hop is a frame on the way.
type Hop struct {
	Node    string `json:"node"`
	Network string `json:"network,omitempty"` // "" = of none of the lab's
	Device  string `json:"device"`
	// Direction is "out" of the machine or "in".
	Direction string `json:"direction"`
	Leg       string `json:"leg"` // query or answer
	// Time is the machine's own; those of two machines cannot be compared.
	Time           time.Time `json:"time"`
	SourceMAC      string    `json:"source_mac"`
	DestinationMAC string    `json:"destination_mac"`
	Length         int       `json:"length"` // of the frame, bytes
	Headers        []Header  `json:"headers"`
	SourcePort     uint16    `json:"source_port"`
	DestPort       uint16    `json:"destination_port"`
}

// Defects that a path can have.
const (
	DoubleEncapsulation = "double-encapsulation"
	OtherTunnel         = "other-tunnel"
	ThroughDirector     = "through-director-on-return"
	WrongSource         = "wrong-source"
	ARPTheft            = "arp-theft"
	Fragmented          = "fragmented"
	TooBig              = "too-big"
)

// Defect is something that the way was not meant to be.
type Defect struct {
	Name   string `json:"name"`
	Node   string `json:"node"` // where it was seen, or who did it
	Detail string `json:"detail"`
}

// Path is the way of one query and its answer.
type Path struct {
	Service  string     `json:"service"`
	Client   string     `json:"client"`
	VIP      netip.Addr `json:"vip"`
	Director string     `json:"director"`
	Backend  string     `json:"backend"`
	Forward  string     `json:"forward"` // tunnel, direct or masquerade
	Port     uint16     `json:"port"`    // the client's

	// Tunnel is the outermost encapsulation between director and backend as it was
	// seen, "" without one; Encapsulations is how many there were, one in another.
	Tunnel           string     `json:"tunnel"`
	Encapsulations   int        `json:"encapsulations"`
	OuterSource      netip.Addr `json:"outer_source,omitzero"`
	OuterDestination netip.Addr `json:"outer_destination,omitzero"`
	Source           netip.Addr `json:"source,omitzero"` // of the answer as the client saw it
	// StraightBack says that the answer was seen to reach the client and that the
	// director saw nothing of it.
	StraightBack bool `json:"straight_back"`
	Fragmented   bool `json:"fragmented"`
	// Whole says that each hop was followed by the next one up to the client; where
	// it is false frames are missing, and what is absent proves nothing.
	Whole   bool     `json:"whole"`
	Defects []Defect `json:"defects"`
	Hops    []Hop    `json:"hops"`
}

// Has reports whether the path has a defect of that name.
func (p Path) Has(name string) bool {
	return slices.ContainsFunc(p.Defects, func(d Defect) bool { return d.Name == name })
}

// Broken are the defects that fail a proof: fragments only cost time.
func (p Path) Broken() []Defect {
	var out []Defect
	for _, d := range p.Defects {
		if d.Name != Fragmented {
			out = append(out, d)
		}
	}
	return out
}

// Record is what a result keeps of the ways: paths.json.
type Record struct {
	Paths []Path `json:"paths"`
	// Dropped is machine → frames that it could not keep.
	Dropped map[string]uint64 `json:"dropped,omitempty"`
}

// Whole counts the paths that were seen from the client back to the client.
func (r Record) Whole() int {
	n := 0
	for _, p := range r.Paths {
		if p.Whole {
			n++
		}
	}
	return n
}

// Add puts another record's paths behind the ones that are there.
func (r *Record) Add(o Record) {
	r.Paths = append(r.Paths, o.Paths...)
	for n, lost := range o.Dropped {
		if r.Dropped == nil {
			r.Dropped = map[string]uint64{}
		}
		r.Dropped[n] += lost
	}
}

// Summary says in one line what was seen, "" without paths: how many were followed
// whole, under which headers, and of the answers that the director does not translate how many
// went straight back.
func (r Record) Summary() string {
	if len(r.Paths) == 0 {
		return ""
	}
	straight, past, of := 0, 0, map[string]int{}
	for _, p := range r.Paths {
		if p.Forward != forwardMasquerade {
			past++
			if p.StraightBack {
				straight++
			}
		}
		of[p.under()]++
	}
	text := fmt.Sprintf("%d of %d were followed from card to card", r.Whole(), len(r.Paths))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		text += fmt.Sprintf(", %d %s", of[name], name)
	}
	if past > 0 {
		text += fmt.Sprintf("; %d of %d answers went straight back", straight, past)
	}
	return text
}

// under is what was around the query behind the director, in words.
func (p Path) under() string {
	switch {
	case p.Tunnel == "":
		return "without an outer header"
	case p.OuterSource.Is6():
		return "in " + p.Tunnel + " over IPv6"
	}
	return "in " + p.Tunnel
}

// InWords continues the sentence about the proof.
func (r Record) InWords() string {
	if s := r.Summary(); s != "" {
		return "; " + s
	}
	return ""
}

// Warnings are what does not fail a proof and should be known, one line each.
func (r Record) Warnings() []string {
	var out []string
	fragmented := 0
	for _, p := range r.Paths {
		if p.Fragmented {
			fragmented++
		}
	}
	if fragmented > 0 {
		out = append(out, fmt.Sprintf("%d of %d queries of the proof went in fragments: look at the MTU of networks and tunnels.", fragmented, len(r.Paths)))
	}
	for _, n := range slices.Sorted(maps.Keys(r.Dropped)) {
		out = append(out, fmt.Sprintf("%s could not keep %d frames of the proof: its paths may have gaps.", n, r.Dropped[n]))
	}
	return out
}
