package experiment

import (
	"context"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/symptom"
)

// Site reads what a symptom is planted into: the machines of the service, and what
// they have now of what is going to be changed.
func Site(ctx context.Context, lab *Lab, service addr.Noun) (symptom.Site, error) {
	p, err := newProver(lab, service)
	if err != nil {
		return symptom.Site{}, err
	}
	if len(p.cast.clients) == 0 {
		return symptom.Site{}, noClient(service)
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	svc, victim := p.cast.service, p.cast.backends[0]
	machine, _ := lab.Topology.Machine(victim.noun)
	s := symptom.Site{
		Server:  machine.Server,
		Service: service, Director: p.cast.director.noun, Backend: victim.noun,
		VIPs: svc.VIPs, Port: svc.Port, Protocol: svc.Protocol, OnePacket: svc.OnePacket,
		Address: victim.addresses[0], Card: victim.device, Tunnel: p.cast.tunnels[victim.noun], Fallback: p.fallback(victim.noun),
	}
	for _, c := range p.cast.clients {
		s.Clients = append(s.Clients, symptom.Card{Machine: c.noun, Device: c.device})
	}
	link, err := do(ctx, lab, s.Director, proto.LinkRead, proto.LinkRef{Name: p.cast.director.device})
	if err != nil {
		return s, err
	}
	s.Held, s.HeldBy = link.Addresses, p.cast.director.device
	ofBackend, ofDirector := symptom.Parameters(victim.device)
	if s.BackendNow, err = do(ctx, lab, s.Backend, proto.SysctlRead, ofBackend); err != nil {
		return s, err
	}
	s.DirectorNow, err = do(ctx, lab, s.Director, proto.SysctlRead, ofDirector)
	return s, err
}
