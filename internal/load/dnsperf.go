package load

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"strconv"
	"time"

	"github.com/miekg/dns"
)

// MaxSockets is how many sockets one thread of dnsperf handles; 2.11 and newer
// refuse more, older ones misbehave.
const MaxSockets = 256

// DNSPerf is the load of one client in one run.
type DNSPerf struct {
	VIPs      []netip.Addr
	Port      uint16
	From      []netip.Addr // the client's addresses, none = the kernel's choice
	Protocol  string       // udp or tcp
	Questions []Question   // cycled
	Queries   int          // of this client
	Sockets   int          // source ports of each process
	Rate      float64      // queries a second of this client, 0 = as fast as answers come
	Timeout   time.Duration
	// Outstanding is dnsperf's -q, 0 = its default of 100.
	Outstanding int
	// Identify asks for the server's identity with each query (NSID, RFC 5001).
	Identify bool
	// Dir is where the query files go in the guest.
	Dir string
}

// Job is one process of a load generator.
type Job struct {
	VIP  netip.Addr
	From netip.Addr // invalid = the kernel's choice
	// Path and Lines are the query file to be written before the start.
	Path    string
	Lines   []byte
	Queries int
	Args    []string // of dnsperf
	// Of the agent's own generator: its source ports in order of use, and its
	// queries a second.
	Ports []uint16
	Rate  float64
}

// Jobs returns the processes to start side by side. dnsperf takes one server
// and one source address, so there is one process for each pair of a client's
// address and a VIP; the client's queries are dealt to them in turn, as is its
// rate. Sockets is what each of them opens. One client with one address and one
// VIP, the usual case, is one process that sends all lines in order.
//
// Everything that is not given stays dnsperf's default: one thread, at most 100
// queries outstanding, one pass through the file.
func (d DNSPerf) Jobs() ([]Job, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	from := d.From
	if len(from) == 0 {
		from = []netip.Addr{{}}
	}
	n := len(d.VIPs) * len(from)
	var jobs []Job
	for i := range n {
		j := Job{VIP: d.VIPs[i%len(d.VIPs)], From: from[i/len(d.VIPs)], Path: path.Join(d.Dir, fmt.Sprintf("queries-%d", i))}
		var mine []Question
		for k := i; k < d.Queries; k += n {
			mine = append(mine, d.Questions[k%len(d.Questions)])
		}
		if j.Queries = len(mine); j.Queries == 0 {
			break
		}
		j.Lines = QueryFile(mine, len(mine))
		if err := d.arguments(&j, n); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (d DNSPerf) check() error {
	switch {
	case len(d.VIPs) == 0:
		return fmt.Errorf("load: no address to query")
	case len(d.Questions) == 0:
		return fmt.Errorf("load: the zones served hold no records to ask for")
	case d.Queries < 1:
		return fmt.Errorf("load: %d queries", d.Queries)
	case d.Sockets < 1 || d.Sockets > MaxSockets:
		return fmt.Errorf("load: %d sockets, dnsperf handles 1 to %d", d.Sockets, MaxSockets)
	case d.Protocol != "udp" && d.Protocol != "tcp":
		return fmt.Errorf("load: protocol %q, want udp or tcp", d.Protocol)
	case d.Timeout <= 0:
		return fmt.Errorf("load: timeout %v", d.Timeout)
	case d.Rate < 0 || math.IsNaN(d.Rate) || math.IsInf(d.Rate, 0):
		return fmt.Errorf("load: rate %v", d.Rate)
	}
	return nil
}

func (d DNSPerf) arguments(j *Job, processes int) error {
	j.Args = []string{"-s", j.VIP.String(), "-p", strconv.Itoa(int(d.Port)), "-d", j.Path, "-m", d.Protocol,
		"-c", strconv.Itoa(d.Sockets), "-t", strconv.FormatFloat(d.Timeout.Seconds(), 'f', -1, 64)}
	if j.From.IsValid() {
		j.Args = append(j.Args, "-a", j.From.String())
	}
	if d.Outstanding > 0 {
		j.Args = append(j.Args, "-q", strconv.Itoa(d.Outstanding))
	}
	if d.Identify {
		// dnsperf takes no option without a value; what a server does with one that
		// should be empty is the server's business (RFC 5001, 2.1), and named ignores it.
		j.Args = append(j.Args, "-e", "-E", fmt.Sprintf("%d:00", dns.EDNS0NSID))
	}
	if d.Rate > 0 {
		share := math.Round(d.Rate / float64(processes)) // 2.10 takes whole numbers only
		if share < 1 {
			return fmt.Errorf("load: rate %v a second over %d processes is below dnsperf's smallest, 1 a second each", d.Rate, processes)
		}
		j.Args = append(j.Args, "-Q", strconv.FormatFloat(share, 'f', 0, 64))
	}
	return nil
}
