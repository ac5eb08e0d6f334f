package experiment

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
)

// watchID names the watches of a proof, of which there is one at a time.
const watchID = "proof"

// mostSightings bounds what one machine keeps: a query and its answer are four frames
// at a backend and three at the director, and 2 MB are enough for 4,000 queries.
const mostSightings = 16 << 10

// watched are the machines that packets of the service may pass: the cast, and the
// routers.
func (p *prover) watched() []addr.Noun {
	out := []addr.Noun{p.cast.director.noun}
	for _, part := range slices.Concat(p.cast.clients, p.cast.backends) {
		if !slices.Contains(out, part.noun) {
			out = append(out, part.noun)
		}
	}
	for _, m := range p.lab.Topology.Machines {
		if m.Noun.Kind == addr.Router {
			out = append(out, m.Noun)
		}
	}
	return out
}

// watch lets each of these machines keep the frames of the clients' flows, under
// whatever headers, and whatever says whose the VIPs are.
func (p *prover) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	spec := proto.SightingsSpec{ID: watchID, Addresses: slices.Clone(p.cast.service.VIPs), Most: mostSightings}
	for _, c := range p.cast.clients {
		for _, vip := range p.cast.service.VIPs {
			for _, a := range p.clientAddresses(c, vip) {
				if !slices.Contains(spec.Addresses, a) {
					spec.Addresses = append(spec.Addresses, a)
				}
			}
		}
	}
	r := p.lab.round()
	for _, n := range p.watched() {
		client.Add(r.on(n), proto.SightingsStart, spec)
	}
	return r.run(ctx)
}

// clientAddresses are the one that a client asks from, and those in whose place it is
// seen behind routers that masquerade.
func (p *prover) clientAddresses(c part, vip netip.Addr) []netip.Addr {
	out := []netip.Addr{c.addresses[0]}
	m, _ := p.lab.Topology.Machine(c.noun)
	for _, t := range p.cast.ways.Translated(p.lab.Topology, m, vip) {
		out = append(out, t.Address)
	}
	return out
}

// asked notes a query that the backend has answered, and the way that it was to go.
func (p *prover) asked(c part, vip netip.Addr, rs lang.RealServer, port uint16) {
	p.queries = append(p.queries, p.meant(c, vip, rs, port))
}

// miss notes the client's last query to the VIP, which did not come back as it should.
func (p *prover) miss(c part, vip netip.Addr, rs lang.RealServer) {
	a := p.meant(c, vip, rs, 0)
	p.missed = &a
}

// meant is the way that a query from a port was to go.
func (p *prover) meant(c part, vip netip.Addr, rs lang.RealServer, port uint16) sighting.Asked {
	svc := p.cast.service
	a := sighting.Asked{Service: svc.Noun, Client: c.noun, Director: svc.Director, Backend: rs.Backend,
		ClientPort: port, ClientAddresses: p.clientAddresses(c, vip), VIP: vip, Port: svc.Port,
		Real: netip.AddrPortFrom(rs.Address, rs.Port), TCP: svc.Protocol == "tcp", Forward: svc.Forward}
	for _, t := range p.lab.Topology.Tunnels {
		if t.Noun == rs.Tunnel {
			a.Tunnel, a.OuterSource, a.OuterDestination = t.Type, t.Remote, t.Local
		}
	}
	return a
}

// collect ends the watches and joins what was seen.
func (p *prover) collect(ctx context.Context) (sighting.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	r := p.lab.round()
	results := map[addr.Noun]*client.Future[proto.SightingsResult]{}
	for _, n := range p.watched() {
		results[n] = client.Add(r.on(n), proto.SightingsStop, proto.SightingsRef{ID: watchID})
	}
	if err := r.run(ctx); err != nil {
		return sighting.Record{}, err
	}
	var frames []sighting.Frame
	dropped := map[addr.Noun]uint64{}
	record := sighting.Record{Paths: []sighting.Path{}}
	for _, n := range p.watched() {
		v := results[n].Value()
		for _, f := range v.Frames {
			frames = append(frames, sighting.Frame{Node: n, Device: f.Device, Out: f.Out, Time: f.Time, Length: f.Length, Bytes: f.Frame})
		}
		if v.Dropped > 0 {
			dropped[n] = v.Dropped
		}
	}
	seen := sighting.Read(p.cards(), frames, p.guePorts(), dropped)
	for _, q := range p.queries {
		record.Paths = append(record.Paths, seen.Path(q))
	}
	if p.missed != nil {
		p.missed.ClientPort = seen.LastPort(*p.missed)
		p.sight = seen.Path(*p.missed)
	}
	for n, lost := range dropped {
		if record.Dropped == nil {
			record.Dropped = map[string]uint64{}
		}
		record.Dropped[n.String()] = lost
	}
	return record, nil
}

// cards are those of all machines of the lab.
func (p *prover) cards() []sighting.Card {
	var out []sighting.Card
	for _, m := range p.lab.Topology.Machines {
		for _, nic := range p.lab.Layout.Machines[m.Noun].NICs {
			out = append(out, sighting.Card{Node: m.Noun, Device: nic.Device, Network: nic.Network.String(), MAC: nic.MAC})
		}
	}
	return out
}

func (p *prover) guePorts() []uint16 {
	var out []uint16
	for _, t := range p.lab.Topology.Tunnels {
		if t.Type == sighting.GUE && !slices.Contains(out, t.Port) {
			out = append(out, t.Port)
		}
	}
	return out
}

// withSight adds to the cause of a failed proof what the machines saw of the query that
// failed it: the counters say why, the frames say where.
func (p *prover) withSight(err error) error {
	f, ok := errors.AsType[*diag.Failure](err)
	if !ok || p.missed == nil || p.sight.Client == "" {
		return err
	}
	text, ended := strings.CutSuffix(f.Diagnostic.Detail, ".")
	if last := p.sight.Last(); last != "" {
		text += ". " + last
	}
	if ended {
		text += "."
	}
	f.Diagnostic.Detail = text
	return err
}

// pathFailure is the first defect of the paths by which a proof fails, nil without one.
func pathFailure(r sighting.Record) error {
	for _, p := range r.Paths {
		for _, d := range p.Broken() {
			told := defectTold[d.Name]
			f := diag.Fail(nil, told.summary, told.remedy, "On the way from %s to %s under %s: %s", p.Client, p.Backend, p.VIP, d.Detail)
			f.Diagnostic = f.Diagnostic.For(d.Node)
			return f
		}
	}
	return nil
}

// defectTold is how each defect is told.
var defectTold = map[string]struct{ summary, remedy string }{
	sighting.DoubleEncapsulation: {"Queries are encapsulated twice",
		"Look at the director's route to the backend (lvslab exec NODE -- ip route get ADDRESS): it must not lead into a tunnel of its own."},
	sighting.OtherTunnel: {"Queries go to the backend under another header than the one asked for",
		"Compare the real server's tunnel on the director (ipvsadm -Ln --tun-info) and its addresses with the tunnel's block; lvslab apply repairs what drifted."},
	sighting.ThroughDirector: {"Answers go back through the director",
		"Look at the backend's route to the client (lvslab exec NODE -- ip route get ADDRESS): it must not lead through the director."},
	sighting.WrongSource: {"Answers come from another address than the one asked",
		"Look for rules that rewrite addresses on the way (lvslab exec NODE -- nft list ruleset), and let the server answer from the address that was asked."},
	sighting.ARPTheft: {"Somebody else takes the VIP's packets",
		"On every backend set net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2; then queries go through the director."},
	sighting.TooBig: {"A packet did not fit on its way",
		"Look at the MTU of the networks and tunnels on the way: an outer header takes 20 bytes with IPIP and more with the others."},
}
