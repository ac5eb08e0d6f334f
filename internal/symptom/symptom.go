// Package symptom names what is wrong with a lab by the evidence that its guests
// gave: counters, addresses, tables, answers to ARP, and what became of one query to
// each backend. It is pure: who asks the guests is package experiment.
//
// It also knows how to plant some of the symptoms and how to take each back, so that
// the rules can be tried on a real lab.
package symptom

import (
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Name is a symptom's name, as `lvslab doctor` prints it.
type Name string

// The symptoms. Those of the first group can be planted.
const (
	Fallback     Name = "tunl0"         // the fallback device receives instead of the named one
	RPFilter     Name = "rp-filter"     // strict reverse path filtering on a backend
	ARP          Name = "arp"           // a machine beside the director answers ARP for the VIP
	VIPNotLocal  Name = "vip-not-local" // the director does not hold the VIP
	StaleEntries Name = "stale-entries" // the table has entries older than the service
	NamedAddress Name = "named-address" // named does not listen on the VIP
	OwnAddress   Name = "own-address"   // answers come from the real server's own address

	VIPSilent     Name = "vip-silent"     // the director holds the VIP and does not answer ARP for it
	NobodyChosen  Name = "nobody-chosen"  // no service, or nobody to schedule
	NotScheduled  Name = "not-scheduled"  // IPVS never saw the query
	NoReceiver    Name = "no-receiver"    // nothing takes the tunnel's packets
	LostInTunnel  Name = "lost-in-tunnel" // sent into the tunnel, and not come out
	NoVIP         Name = "no-vip"         // the backend does not hold the VIP
	LostInBackend Name = "lost-in-backend"
	LostOnReturn  Name = "lost-on-return"
	ErrorAnswer   Name = "error-answer"  // a backend answers with an error
	OtherBackend  Name = "other-backend" // another backend than the one chosen answers
)

// Finding is one symptom with what shows it.
type Finding struct {
	Symptom Name      `json:"symptom"`
	At      addr.Noun `json:"-"`
	// Address is At for people, or who it is when it is no machine of the lab.
	Address string `json:"address"`
	// Summary is the cause in a few words, Evidence what was seen, Remedy what to do.
	Summary  string `json:"summary"`
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy"`
}

func found(s Name, at addr.Noun, summary, remedy string, evidence ...string) *Finding {
	return &Finding{Symptom: s, At: at, Address: at.String(), Summary: summary, Remedy: remedy, Evidence: strings.Join(evidence, " ")}
}

// Failure is the finding as an error with its cause, which may be nil.
func (f *Finding) Failure(cause error) error {
	evidence := f.Evidence
	if cause != nil { // its text follows
		evidence = strings.TrimSuffix(evidence, ".")
	}
	d := diag.Fail(cause, f.Summary, f.Remedy, "%s", evidence)
	d.Diagnostic = d.Diagnostic.For(f.Address)
	return d
}

// Names lists the symptoms of some findings, each once, in their order.
func Names(findings []Finding) []Name {
	var out []Name
	seen := map[Name]bool{}
	for _, f := range findings {
		if !seen[f.Symptom] {
			seen[f.Symptom] = true
			out = append(out, f.Symptom)
		}
	}
	return out
}
