package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
)

// RenewedFile is the file of raw/<run_id>/ that holds the machines which were
// made anew for the run, as a list of [Renewed].
const RenewedFile = "renewed.json"

// Renewed is a machine as it was made anew for a run.
type Renewed struct {
	Node string `json:"node"`
	// Image is the block of the image that it boots instead of the declared one.
	Image  string `json:"image,omitempty"`
	BootID string `json:"boot_id"`
	// Template is the key of the saved machine that it is a clone of, "" when it
	// was booted.
	Template string `json:"template,omitempty"`
	// Seed is what its generator of random numbers was seeded with, hex.
	Seed string `json:"seed"`
	// HostKey is the fingerprint of its SSH host key.
	HostKey string `json:"host_key"`
}

// Renewals lists the machines that an experiment's isolation has made anew
// before each of its runs, in declared order: none, the service's director, or
// all machines of the lab.
func Renewals(t *lang.Topology, e lang.Experiment) []addr.Noun {
	switch e.Isolation {
	case lang.IsolationRestore:
		if svc, ok := t.Service(e.Service); ok {
			return []addr.Noun{svc.Director}
		}
	case lang.IsolationRestoreAll:
		var all []addr.Noun
		for _, m := range t.Machines {
			all = append(all, m.Noun)
		}
		return all
	}
	return nil
}

// renewError is a machine that was to be made anew and is in doubt since: what
// it had borrowed is gone with it.
type renewError struct{ err error }

func (e *renewError) Error() string { return "make the machines anew: " + e.err.Error() }
func (e *renewError) Unwrap() error { return e.err }

func inDoubt(err error) bool {
	var doubt *renewError
	return errors.As(err, &doubt)
}

// errNoRenewal is a lab that was handed over without the means.
var errNoRenewal = errors.New("this lab cannot make machines anew")

// renew makes the experiment's machines anew for a try. What was known of the
// earlier ones does not hold any more.
func (m *machinery) renew(ctx context.Context, out *measured) error {
	if len(m.renewals) == 0 {
		return nil
	}
	if m.lab.Renew == nil {
		return &renewError{errNoRenewal}
	}
	images, err := m.images(out.trial.Treatment.Setting)
	if err != nil {
		return err
	}
	list, err := m.lab.Renew(ctx, m.renewals, images)
	if err != nil {
		return &renewError{err}
	}
	m.other = len(images) > 0
	m.forget(m.renewals)
	out.renewed = list
	return nil
}

// images are those that a setting has machines boot instead of the declared ones:
// IPVS decides in the director, so its kernel is the one that a factor varies.
func (m *machinery) images(s Setting) (map[addr.Noun]addr.Noun, error) {
	if s.Kernel == "" {
		return nil, nil
	}
	image, err := addr.ParseNoun(s.Kernel)
	if err != nil {
		return nil, fmt.Errorf("image of the run's director: %w", err)
	}
	svc, _ := m.lab.Topology.Service(m.exp.Service)
	return map[addr.Noun]addr.Noun{svc.Director: image}, nil
}

// declaredAgain gives the director the image back that it is declared with, after
// runs with others.
func (m *machinery) declaredAgain(ctx context.Context) error {
	if !m.other {
		return nil
	}
	if _, err := m.lab.Renew(ctx, m.renewals, nil); err != nil {
		return &renewError{err}
	}
	m.forget(m.renewals)
	m.other = false
	return nil
}

// kernelWanted says what shows that the director runs another kernel than the one
// of its image.
func (m *machinery) kernelWanted(director addr.Noun, s Setting, runs string) []string {
	var image addr.Noun
	if s.Kernel != "" {
		image, _ = addr.ParseNoun(s.Kernel) // it was parsed when the director was made
	}
	want, known := m.lab.Kernels[image]
	if !known || want == runs {
		return nil
	}
	return []string{fmt.Sprintf("%s runs Linux %s, but its image has Linux %s", director, runs, want)}
}

// forget drops what the machines had: their kernel's messages begin again, and
// their files are gone.
func (m *machinery) forget(nodes []addr.Noun) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range nodes {
		delete(m.klog, n)
	}
	for k := range m.uploaded {
		if slices.Contains(nodes, k.client) {
			delete(m.uploaded, k)
		}
	}
}

// pristine says what shows that a director that was made anew has been used
// since: IPVS's totals live as long as its network namespace, so that they are
// zero on a new machine and nowhere else.
func (m *machinery) pristine(director addr.Noun, fresh proto.IPVSFreshState) []string {
	if !slices.Contains(m.renewals, director) {
		return nil
	}
	if fresh.Baseline == (proto.IPVSTotals{}) && fresh.RowsFound == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s was made anew for the run, and yet its IPVS has counted %d connections and %d packets and held %d entries: somebody has used it",
		director, fresh.Baseline.Conns, fresh.Baseline.InPackets, fresh.RowsFound)}
}

// addRenewed keeps what was made anew for the run.
func addRenewed(files map[string][]byte, list []Renewed) error {
	if len(list) == 0 {
		return nil
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", RenewedFile, err)
	}
	files[RenewedFile] = append(data, '\n')
	return nil
}
