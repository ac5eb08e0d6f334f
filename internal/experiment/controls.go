package experiment

import (
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/lang"
)

// ControlPrefix begins the ids of control treatments, which are no part of the
// comparison.
const ControlPrefix = "control="

// aaID and aaSlug name the treatment that is the first one under another name.
const (
	aaID   = ControlPrefix + "aa"
	aaSlug = "aa"
)

// Control reports whether a treatment is a control.
func (t Treatment) Control() bool { return strings.HasPrefix(t.ID, ControlPrefix) }

// withControls adds the control treatments that the experiment asks for. A/A is
// the first treatment once more: what lies between the two is what this lab makes
// of nothing. Direct is its load sent to each backend without LVS.
func withControls(e lang.Experiment, svc lang.Service, list []Treatment) []Treatment {
	if e.Controls == nil || len(list) == 0 {
		return list
	}
	first := list[0]
	if e.Controls.AA {
		twin := first
		twin.ID, twin.Slug, twin.StandsFor = aaID, aaSlug, nil
		list = append(list, twin)
	}
	if e.Controls.Direct {
		list = append(list, directTreatments(svc, first)...)
	}
	return list
}

// Turned returns a treatment as it is in each place of a whole turn of the list:
// one where the experiment does not rotate it.
func Turned(e lang.Experiment, t Treatment) []Treatment {
	n := 1
	if e.Controls != nil && e.Controls.Rotate && !t.Direct() {
		n = max(1, len(t.Setting.Order))
	}
	out := make([]Treatment, n)
	for i := range out {
		out[i] = rotated(e, t, i+1)
	}
	return out
}

// rotated is a treatment as a block has it: with rotate the list begins one place
// further on in each block, so that over as many blocks as there are real servers
// each of them is the head once, whatever the scheduler makes of that.
func rotated(e lang.Experiment, t Treatment, block int) Treatment {
	n := len(t.Setting.Order)
	if t.Direct() { // no list is used
		return t
	}
	if e.Controls == nil || !e.Controls.Rotate || n == 0 {
		return t
	}
	by := (block - 1) % n
	t.Setting.Order = slices.Concat(t.Setting.Order[by:], t.Setting.Order[:by])
	return t
}
