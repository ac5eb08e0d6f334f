// Package predict says before any run what an experiment can find: for each
// treatment who will get which share by the kernel's rules, how many decisions
// a scheduler has to make, and which treatments are one treatment. It asks
// internal/ipvsmodel and is pure.
package predict

import (
	"fmt"
	"math"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/stats"
)

// Prediction is what is foreseen of one experiment.
type Prediction struct {
	Experiment string   `json:"experiment"`
	Service    string   `json:"service"`
	Backends   []string `json:"backends"` // declared order
	Cells      []Cell   `json:"cells"`
	// Same lists the treatments that send every query to the same backend as
	// each other, by as many decisions and under the same load: what a client
	// and a backend see of them cannot differ.
	Same [][]string `json:"same"`
	// Rotates says that the kernel's list begins elsewhere in each block; the
	// cells are those of the first, and KeepsTo says what the others have.
	Rotates bool `json:"rotates"`
	// Collapses says that of treatments which are one only the first is run.
	Collapses bool `json:"collapses,omitempty"`
}

// Kernels are the rules that kernels decide by, by the image that a director
// boots, the zero noun for the built-in one.
type Kernels map[addr.Noun]ipvsmodel.Kernel

// Everywhere are the rules of one kernel on whatever a machine of the topology boots.
func Everywhere(t *lang.Topology, k ipvsmodel.Kernel) Kernels {
	all := Kernels{{}: k}
	for _, i := range t.Images {
		all[i.Noun] = k
	}
	return all
}

// of returns those of a setting's director.
func (k Kernels) of(t *lang.Topology, svc lang.Service, s experiment.Setting) ipvsmodel.Kernel {
	if n, err := addr.ParseNoun(s.Kernel); s.Kernel != "" && err == nil {
		return k[n]
	}
	m, _ := t.Machine(svc.Director)
	return k[m.Image]
}

// Kind is how sure a prediction is.
type Kind string

// The kinds.
const (
	// Exact: the kernel must give these very numbers.
	Exact Kind = "exact"
	// Order: several generators share a scheduler; the decisions are exact, whose
	// queries they are depends on who comes first.
	Order Kind = "order"
	// Ports: the source ports, drawn by the client's kernel, decide.
	Ports Kind = "ports"
	// Chance: the scheduler draws.
	Chance Kind = "chance"
	// Time: the load's exact times decide: sockets rest about as long as entries
	// live, or connections of one query each overlap.
	Time Kind = "time"
	// Path: an impairment may lose, copy or reorder packets before IPVS sees
	// them; the numbers are those without it.
	Path Kind = "path"
)

// Cell is what is foreseen of one treatment, in one run.
type Cell struct {
	Treatment string            `json:"treatment_id"`
	Slug      string            `json:"slug"`
	Factors   map[string]string `json:"factors"`
	Kind      Kind              `json:"kind"`
	Queries   int               `json:"queries"`   // of all clients
	Ports     int               `json:"ports"`     // source ports, or TCP connections
	Decisions int               `json:"decisions"` // choices of the scheduler
	Unserved  int               `json:"unserved"`  // queries that IPVS sends to nobody
	// Pinned is the share of queries that an entry decides, not a scheduler.
	Pinned float64 `json:"pinned"`
	// Quantum is the share that one decision moves: shares cannot be finer.
	Quantum float64 `json:"quantum"`
	// Jain is the index of the shares by weight, 1 = as the weights say;
	// JainBest is what so many decisions can reach.
	Jain     *float64 `json:"jain"`
	JainBest *float64 `json:"jain_best"`
	Shares   []Share  `json:"shares"` // declared order
	// KeepsTo is what the shares keep to when the list turns, "" when it does not.
	KeepsTo Keeping `json:"keeps_to,omitempty"`
	// Turns are the lists of a treatment whose shares keep to neither places nor
	// backends, in the order of their first block.
	Turns []Turn `json:"turns,omitempty"`
	// Entries are rows of the connection table when the load ends. They live
	// from EntryMin to EntryMax seconds after their last packet.
	Entries  int     `json:"entries"`
	EntryMin float64 `json:"entry_min_s"`
	EntryMax float64 `json:"entry_max_s"`
	// Hurts is how many seconds at most the flows of a backend that is removed
	// are dropped.
	Hurts float64 `json:"removed_hurts_s"`
	// Reuse is the chance that a query from a fresh port meets a living entry
	// when this load lasts, nil without a rate.
	Reuse *float64 `json:"reuse_chance"`
	// Group numbers the treatments that are one treatment, from 1.
	Group int `json:"group"`

	signature            string
	image                string // that the director boots for the run, "" = the declared one
	tcp, cut, persistent bool   // a load over TCP; one that was cut and scaled; templates
	reconnects           bool   // the generator makes a connection again that has ended
}

// Share is a backend's part of a treatment.
type Share struct {
	Backend   string  `json:"backend"`
	Position  int     `json:"position"` // in the kernel's list, 0 = head
	Weight    int     `json:"weight"`
	Decisions float64 `json:"decisions"` // whole unless Kind is ports or chance
	Queries   float64 `json:"queries"`
	Share     float64 `json:"share"` // of the served queries
	// Low and High hold 95 of 100 runs of a treatment that draws; nil else.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

// Of predicts an experiment whose treatments [experiment.Treatments] has made.
// budget is how many packets may be simulated in all, 0 = as many as there are:
// longer loads are then cut and scaled. Of what kernels does not name, the newest
// rules are taken.
func Of(t *lang.Topology, e lang.Experiment, treatments []experiment.Treatment, budget int, kernels Kernels) (Prediction, error) {
	svc, ok := t.Service(e.Service)
	if !ok {
		return Prediction{}, fmt.Errorf("predict %s: there is no %s", e.Noun, e.Service)
	}
	out := Prediction{Experiment: e.Noun.String(), Service: svc.Noun.String(), Same: [][]string{}, Rotates: e.Controls != nil && e.Controls.Rotate, Collapses: e.Collapse}
	for _, r := range svc.RealServers {
		out.Backends = append(out.Backends, r.Backend.String())
	}
	each := math.MaxInt
	if budget > 0 && len(treatments) > 0 {
		each = max(1000, budget/len(treatments))
	}
	for _, tr := range treatments {
		if tr.Direct() { // nothing of IPVS takes part
			continue
		}
		cell, err := ofTurns(t, e, svc, tr, each, kernels)
		if err != nil {
			return out, fmt.Errorf("predict %s, %s: %w", e.Noun, tr.ID, err)
		}
		out.Cells = append(out.Cells, cell)
	}
	out.group()
	return out, nil
}

func predict(t *lang.Topology, e lang.Experiment, svc lang.Service, tr experiment.Treatment, budget int, kernels Kernels) (Cell, error) {
	s := tr.Setting
	asking, err := processes(t, e, svc, s)
	if err != nil {
		return Cell{}, err
	}
	b := bench{
		services: experiment.Services(t, svc, s), sysctls: experiment.Sysctls(t, svc.Director), setting: s,
		processes: asking, impaired: impaired(t, svc, e), kernel: kernels.of(t, svc, s), forgetful: forgetful(t, s),
	}
	kind := b.kind()
	c := Cell{Treatment: tr.ID, Slug: tr.Slug, Factors: tr.Factors, Kind: kind, Queries: s.Queries * s.Clients, image: s.Kernel, tcp: s.Protocol == "tcp", persistent: svc.Persistence != nil, reconnects: s.Load == ""}
	for i, r := range svc.RealServers {
		b.backends = append(b.backends, r.Address)
		c.Shares = append(c.Shares, Share{Backend: r.Backend.String(), Position: position(s.Order, i), Weight: s.Weights[i]})
	}
	if err := b.fold(); err != nil {
		return c, err
	}
	if err := b.fill(&c, budget); err != nil {
		return c, err
	}
	c.finish(s)
	c.fate(s, svc, b.sysctls, t, e)
	return c, nil
}

func position(order []int, i int) int {
	for p, o := range order {
		if o == i {
			return p
		}
	}
	return -1
}

// finish derives what follows from the counts.
func (c *Cell) finish(s experiment.Setting) {
	var share, weight []float64
	for i := range c.Shares {
		share, weight = append(share, c.Shares[i].Queries), append(weight, float64(c.Shares[i].Weight))
	}
	if served := c.Queries - c.Unserved; served > 0 {
		for i := range c.Shares {
			c.Shares[i].Share = c.Shares[i].Queries / float64(served)
		}
	}
	if c.Decisions > 0 {
		c.Quantum = 1 / float64(c.Decisions)
	}
	if c.Queries > 0 {
		asked := c.Decisions
		if s.Protocol == "tcp" && !s.Fresh {
			asked = 0 // every query goes over a connection that exists
		}
		c.Pinned = math.Max(0, 1-float64(asked+c.Unserved)/float64(c.Queries))
	}
	if j, ok := stats.JainWeighted(share, weight); ok {
		c.Jain = &j
	}
	if j, ok := stats.JainBound(c.Decisions, weight); ok {
		c.JainBest = &j
	}
}

// ephemeral is the number of source ports that Linux draws from by default,
// 32768 to 60999 (Documentation/networking/ip-sysctl.rst).
const (
	firstEphemeral = 32768
	ephemeral      = 28232
)

// fate says what the entries do after the load.
func (c *Cell) fate(s experiment.Setting, svc lang.Service, sysctls map[string]string, t *lang.Topology, e lang.Experiment) {
	timeout := s.Timeouts.UDP
	if s.Protocol == "tcp" {
		timeout = s.Timeouts.TCP
	}
	late := ipvsmodel.Late(timeout)
	if s.OnePacket && svc.Persistence == nil {
		return // no entries, no fate
	}
	c.EntryMin, c.EntryMax = timeout.Seconds(), (timeout + late).Seconds()
	if s.OnePacket {
		c.EntryMin, c.EntryMax = svc.Persistence.Timeout.Seconds(), (svc.Persistence.Timeout + ipvsmodel.Late(svc.Persistence.Timeout)).Seconds()
		return
	}
	if sysctls["net.ipv4.vs.expire_nodest_conn"] == "0" {
		c.Hurts = c.EntryMax
	}
	if s.Rate > 0 && s.Load == "" { // lvslab's own generator takes no port twice
		p := reuse(s.Rate/float64(addresses(t, e)), timeout)
		c.Reuse = &p
	}
}

// addresses is how many the first client has.
func addresses(t *lang.Topology, e lang.Experiment) int {
	if m, ok := t.Machine(first(e.Clients)); ok && len(m.NICs) > 0 {
		return max(1, len(m.NICs[0].Addresses))
	}
	return 1
}

func first(list []addr.Noun) (n addr.Noun) {
	if len(list) > 0 {
		n = list[0]
	}
	return n
}

// reuse is the chance that a port drawn for a query has been used within the
// timeout, for one address that asks rate queries a second, each from a port
// drawn afresh.
func reuse(rate float64, timeout time.Duration) float64 {
	return 1 - math.Exp(-rate*timeout.Seconds()/ephemeral)
}
