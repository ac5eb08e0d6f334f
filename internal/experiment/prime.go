package experiment

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

// primeTimeout bounds one echo or warm-up query. Answers take milliseconds; a
// second more covers a guest whose CPU is being emulated for somebody else.
const primeTimeout = 2 * time.Second

// prime is step 1 of the contract: neighbour entries are made by ICMP, which
// no service sees (ip_vs_in lets echo requests pass), and each named is warmed
// on its own address. The client also echoes the VIPs: that makes the entry
// which its first query will use, and shows whose MAC it holds. What does not
// hold is returned in words; the error is for machines that do not answer.
func prime(ctx context.Context, lab *Lab, c *cast, s Setting) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	r := lab.round()
	type neighbour struct {
		client addr.Noun
		vip    netip.Addr
		want   hop
		entry  *client.Future[proto.Neigh]
	}
	var entries []neighbour
	clients := c.only(s.Clients)
	for _, p := range clients {
		b := r.on(p.noun)
		ping(b, c.director.addresses[0])
		for _, vip := range c.targets(s) {
			ping(b, vip)
			want := c.hop(p, c.target(s).noun, vip)
			entries = append(entries, neighbour{p.noun, vip, want, client.Add(b, proto.NeighRead, proto.NeighRef{Address: want.address, Dev: p.device})})
		}
	}
	warm := map[addr.Noun]*client.Future[proto.QueryAnswer]{}
	name, kind := warmName(lab.Topology, c.service)
	for _, p := range c.backends {
		ping(r.on(c.director.noun), p.addresses[0])
		b := r.on(p.noun)
		for _, cl := range clients {
			for _, a := range c.seenOf(cl, s) {
				ping(b, a)
			}
		}
		if name != "" {
			warm[p.noun] = client.Add(b, proto.Query, proto.QuerySpec{
				Server: p.addresses[0], Name: name, Type: kind, TimeoutMS: primeTimeout.Milliseconds(),
			})
		}
	}
	if err := r.run(ctx); err != nil {
		return failedWords(err)
	}
	var failed []string
	for _, e := range entries {
		if wrong := c.believes(e.client, e.vip, e.entry.Value().MAC, e.want); wrong != "" {
			failed = append(failed, wrong)
		}
	}
	for _, p := range c.backends {
		f := warm[p.noun]
		switch {
		case f == nil:
		case f.Value().Refused:
			failed = append(failed, fmt.Sprintf("%s refuses queries on its own address", p.noun))
		case f.Value().Rcode != "NOERROR":
			failed = append(failed, fmt.Sprintf("%s answers %s on its own address for %s", p.noun, f.Value().Rcode, name))
		}
	}
	return failed, nil
}

func ping(b *client.Batch, to netip.Addr) {
	client.Add(b, proto.Ping, proto.PingSpec{Address: to, TimeoutMS: primeTimeout.Milliseconds()})
}

// failedWords splits an error of a round: what guests reported are conditions
// that do not hold, anything else is returned as an error.
func failedWords(err error) ([]string, error) {
	if !answered(err) {
		return nil, err
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var words []string
		for _, e := range joined.Unwrap() {
			words = append(words, e.Error())
		}
		return words, nil
	}
	return []string{err.Error()}, nil
}

// owner names the machine with that MAC.
func (c *cast) owner(mac string) string {
	switch n, ok := c.macs[mac]; {
	case mac == "":
		return "nobody"
	case ok:
		return n.String()
	}
	return "no machine of the lab"
}

// warmName is the first question that the service's backends can answer.
func warmName(t *lang.Topology, svc lang.Service) (name, kind string) {
	if q := load.QueryNames(zonesOf(t, svc)); len(q) > 0 {
		return q[0].Name, q[0].Type
	}
	return "", ""
}

// zonesOf lists the zones that the service's backends serve, in declared order.
func zonesOf(t *lang.Topology, svc lang.Service) []lang.Zone {
	served := map[addr.Noun]bool{}
	for _, r := range svc.RealServers {
		m, _ := t.Machine(r.Backend)
		for _, z := range m.Serves {
			served[z] = true
		}
	}
	var out []lang.Zone
	for _, z := range t.Zones {
		if served[z.Noun] {
			out = append(out, z)
		}
	}
	return out
}
