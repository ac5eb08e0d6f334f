package load

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"time"
)

// Bounds of the generator: what one process may be asked for.
const (
	// MostAsked keeps a record in the memory of a small guest.
	MostAsked = 100_000
	// MostWaiting bounds the queries that wait for an answer at a time: each may
	// be a socket of its own.
	MostWaiting = 10_000
	// MostPaced bounds how long a paced load takes.
	MostPaced = time.Hour
	// DefaultWindow is the number of queries outstanding in a closed loop; it is
	// dnsperf's, too.
	DefaultWindow = 100
)

// Generator is the load of one client in one run by the agent's own generator.
type Generator struct {
	VIPs      []netip.Addr
	Port      uint16
	From      []netip.Addr              // the client's addresses
	Seen      map[netip.Addr]netip.Addr // of all clients behind NAT, see [ShareOf]
	Protocol  string                    // udp or tcp
	Questions []Question                // cycled
	Queries   int                       // of this client
	Sockets   int                       // source ports of each process; 0 = a fresh one for each query
	Open      bool
	Window    int     // closed loop: queries outstanding at most
	Rate      float64 // queries a second of this client, 0 = as fast as answers come
	Timeout   time.Duration
	Seed      int64 // of the source ports
	Dir       string
}

// Jobs returns the processes to start side by side, as [DNSPerf.Jobs] does: one
// for each pair of an address and a VIP, the queries dealt to them in turn. The
// ports of an address are dealt to its VIPs in turn, too, since two sockets of one
// address cannot share a port.
func (g Generator) Jobs() ([]Job, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	n := len(g.VIPs) * len(g.From)
	var jobs []Job
	for i := range n {
		j := Job{VIP: g.VIPs[i%len(g.VIPs)], From: g.From[i/len(g.VIPs)], Path: path.Join(g.Dir, fmt.Sprintf("queries-%d", i)), Rate: g.Rate / float64(n)}
		var mine []Question
		for k := i; k < g.Queries; k += n {
			mine = append(mine, g.Questions[k%len(g.Questions)])
		}
		if j.Queries = len(mine); j.Queries == 0 {
			break
		}
		j.Lines = QueryFile(mine, len(mine))
		var err error
		if j.Ports, err = PortsOf(g.Seed, ShareOf(j.From, g.Seen), i%len(g.VIPs), len(g.VIPs), g.ports(j.Queries)); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (g Generator) ports(queries int) int {
	if g.Sockets == 0 {
		return queries
	}
	return g.Sockets
}

// PortsOf are the n source ports that an address uses for the vip-th of its VIPs,
// counted from 0.
func PortsOf(seed int64, share PortShare, vip, vips, n int) ([]uint16, error) {
	all, err := share.Ports(seed, (n-1)*vips+vip+1)
	if err != nil {
		return nil, err
	}
	var out []uint16
	for k := vip; k < len(all); k += vips {
		out = append(out, all[k])
	}
	return out, nil
}

func (g Generator) check() error {
	base := DNSPerf{VIPs: g.VIPs, Questions: g.Questions, Queries: g.Queries, Sockets: max(1, g.Sockets), Protocol: g.Protocol, Timeout: g.Timeout, Rate: g.Rate}
	if err := base.check(); err != nil {
		return err
	}
	switch {
	case len(g.From) == 0:
		return fmt.Errorf("load: the client has no address")
	case g.Queries > MostAsked:
		return fmt.Errorf("load: %d queries of a client, at most %d", g.Queries, MostAsked)
	case g.Open && g.Rate == 0:
		return fmt.Errorf("load: an open loop has a rate")
	case !g.Open && (g.Window < 1 || g.Window > MostWaiting):
		return fmt.Errorf("load: a window of %d, want 1 to %d", g.Window, MostWaiting)
	case g.Open && g.Rate*g.Timeout.Seconds() > MostWaiting:
		return fmt.Errorf("load: %.0f queries may wait at a time, at most %d", math.Ceil(g.Rate*g.Timeout.Seconds()), MostWaiting)
	case g.Rate > 0 && float64(g.Queries)/g.Rate > MostPaced.Seconds():
		return fmt.Errorf("load: %d queries at %v a second take longer than %s", g.Queries, g.Rate, MostPaced)
	}
	return nil
}
