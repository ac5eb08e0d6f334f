package verdict

import "github.com/lvslab/lvslab/internal/artifact"

// Facts are what the rules must know about the study beside its rows. They are
// kept in summary.json, so that a result can be judged again without its
// topology.
type Facts struct {
	Experiment  string   `json:"experiment"` // label, as in runs.csv
	Service     string   `json:"service"`    // service.dns
	VIPs        []string `json:"vips"`
	Scheduler   string   `json:"scheduler"` // declared; a factor may override it
	OnePacket   bool     `json:"one_packet"`
	Flags       []string `json:"flags,omitempty"`
	Protocol    string   `json:"protocol"`
	Forward     string   `json:"forward"` // tunnel, direct or masquerade
	Persistence bool     `json:"persistence"`
	// ClientAddresses is the number of source addresses of the clients together, as
	// the director sees them.
	ClientAddresses int    `json:"client_addresses"`
	Blocks          int    `json:"blocks"` // iterations planned
	Accelerator     string `json:"accelerator"`
	// EqualWithin is the factor within which times count as equal, stated before
	// the study; 0 = none.
	EqualWithin float64 `json:"equal_within,omitempty"`
	// Controls are the control runs that were asked for, nil = none.
	Controls *Controls `json:"controls,omitempty"`
	// Factors are the names of the factors in declared order.
	Factors []string `json:"factors"`
	// Treatments are those planned, in declared order. Settings of a treatment
	// that is not listed are taken from its rows and from the fields above.
	Treatments []Treatment `json:"treatments"`
}

// Controls says which control runs a study has.
type Controls struct {
	AA     bool `json:"aa,omitempty"`     // the first treatment twice in each block
	Rotate bool `json:"rotate,omitempty"` // another list head in each block
	Direct bool `json:"direct,omitempty"` // each backend without LVS in each block
}

// Treatment is one treatment with the settings that decide what IPVS does.
type Treatment struct {
	ID              string            `json:"treatment_id"`
	Factors         map[string]string `json:"factors,omitempty"` // as in runs.csv
	Scheduler       string            `json:"scheduler"`
	OnePacket       bool              `json:"one_packet"`
	Flags           []string          `json:"flags,omitempty"`
	VIPs            int               `json:"vips"`
	ClientAddresses int               `json:"client_addresses"`
	// StandsFor are treatments that were not run, because by the kernel's rules
	// they are this one.
	StandsFor []string `json:"stands_for,omitempty"`
}

// TreatmentOf returns the treatment of a row: the planned one, or for one that
// the facts do not list what its row and the declared settings say.
func (f Facts) TreatmentOf(r artifact.Run) Treatment {
	for _, t := range f.Treatments {
		if t.ID == r.TreatmentID {
			return t
		}
	}
	t := Treatment{ID: r.TreatmentID, Factors: r.Factors, Scheduler: f.Scheduler, OnePacket: f.OnePacket,
		Flags: f.Flags, VIPs: len(f.VIPs), ClientAddresses: f.ClientAddresses}
	if s, ok := r.Factors["scheduler"]; ok {
		t.Scheduler = s
	}
	if s, ok := r.Factors["one_packet"]; ok {
		t.OnePacket = s == "true"
	}
	return t
}
