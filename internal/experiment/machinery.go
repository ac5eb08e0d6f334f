package experiment

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/load"
)

// guestDir is where agents let files be written.
const guestDir = "/run/lvslab"

// outstanding is how many queries dnsperf keeps in flight (its -q default).
const outstanding = 100

// machinery is what the runs of one experiment share.
type machinery struct {
	lab       *Lab
	exp       lang.Experiment
	questions []load.Question
	expected  load.Expected
	nodes     map[string]string // MAC → machine
	renewals  []addr.Noun       // made anew before each run
	other     bool              // the director boots another image than the declared one

	mu       sync.Mutex
	klog     map[addr.Noun]uint64 // last kernel message seen
	uploaded map[fileKey][32]byte // digest of the query file that a client has
}

// fileKey is a file of a client.
type fileKey struct {
	client addr.Noun
	path   string
}

func newMachinery(lab *Lab, e lang.Experiment, c *cast) (*machinery, error) {
	zones := zonesOf(lab.Topology, c.service)
	expected, err := load.ExpectedAnswers(zones)
	if err != nil {
		return nil, err
	}
	m := &machinery{
		lab: lab, exp: e, questions: load.QueryNames(zones), expected: expected, nodes: map[string]string{},
		klog: map[addr.Noun]uint64{}, uploaded: map[fileKey][32]byte{}, renewals: Renewals(lab.Topology, e),
	}
	for mac, n := range c.macs {
		m.nodes[mac] = n.String()
	}
	return m, nil
}

// identities are the names by which answers tell who gave them, nil where their
// MACs do.
func (m *machinery) identities(c *cast) map[string]string {
	if !c.hidden() {
		return nil
	}
	out := map[string]string{}
	for _, p := range c.backends {
		out[p.noun.String()] = p.noun.String() // as the zones' server-id has it
	}
	return out
}

// process is one load generator of one client.
type process struct {
	client addr.Noun
	device string // of the client, on the VIP's network
	load.Job
	bound time.Duration // it is killed after this
}

// processes are the generators of a run, those of one client one after
// the other.
func (m *machinery) processes(c *cast, s Setting) ([]process, error) {
	var out []process
	for _, p := range c.only(s.Clients) {
		jobs, err := m.jobs(c, p, s)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			out = append(out, process{p.noun, p.device, j, loadBound(s, j.Queries, s.Rate/float64(len(jobs)))})
		}
	}
	return out, nil
}

// lacks reports whether the client does not have the process's query file yet.
func (m *machinery) lacks(p process) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uploaded[fileKey{p.client, p.Path}] != sha256.Sum256(p.Lines)
}

func (m *machinery) has(p process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uploaded[fileKey{p.client, p.Path}] = sha256.Sum256(p.Lines)
}

func (m *machinery) since(n addr.Noun) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.klog[n]
}

// seen moves on to the last of the messages.
func (m *machinery) seen(n addr.Noun, lines []proto.KernelLine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(lines) > 0 {
		m.klog[n] = lines[len(lines)-1].Seq
	}
}

// loadBound is how long a load may take before something is stuck: the paced
// part, and each window of outstanding queries timing out.
func loadBound(s Setting, queries int, rate float64) time.Duration {
	paced := time.Duration(0)
	if rate > 0 {
		paced = time.Duration(float64(queries) / rate * float64(time.Second))
	}
	window := outstanding
	if s.Load != "" && s.Mode == lang.ModeClosed {
		window = s.Window
	}
	windows := time.Duration(queries/window + 2)
	if s.Mode == lang.ModeOpen {
		windows = 2 // nothing waits for answers but the end
	}
	return 30*time.Second + paced + windows*s.Within
}
