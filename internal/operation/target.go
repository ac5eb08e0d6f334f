package operation

import (
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// targets turns the nouns of --target into those that resources belong to: a
// zone is a setting of the machines that serve it.
func targets(asked []addr.Noun, t *lang.Topology) ([]addr.Noun, error) {
	var out []addr.Noun
	for _, n := range asked {
		switch n.Kind {
		case addr.Experiment:
			return nil, diag.Fail(nil, "An experiment cannot be a target", "Leave --target away: then the pending runs are made.",
				"--target %s: a target leaves experiments out", n)
		case addr.Zone:
			serving := servers(n, t)
			if len(serving) == 0 {
				return nil, diag.Fail(nil, "target matches nothing", "Name a zone that a backend serves.", "no backend serves %s", n)
			}
			out = append(out, serving...)
		case addr.Image:
			using := booting(n, t)
			if len(using) == 0 {
				return nil, diag.Fail(nil, "target matches nothing", "Name an image that a machine boots.", "no machine boots %s", n)
			}
			out = append(out, using...)
		default:
			out = append(out, n)
		}
	}
	return out, nil
}

// booting are the machines that boot an image.
func booting(image addr.Noun, t *lang.Topology) []addr.Noun {
	var out []addr.Noun
	for _, m := range t.Machines {
		if m.Image == image {
			out = append(out, m.Noun)
		}
	}
	return out
}

// servers are the machines that serve a zone.
func servers(zone addr.Noun, t *lang.Topology) []addr.Noun {
	var out []addr.Noun
	for _, m := range t.Machines {
		if slices.Contains(m.Serves, zone) {
			out = append(out, m.Noun)
		}
	}
	return out
}

// replaceable checks the nouns of --replace: each must be something that
// exists or is wanted.
func replaceable(asked []addr.Noun, known []addr.Resource) error {
	for _, n := range asked {
		hit := slices.ContainsFunc(known, func(r addr.Resource) bool { return n.Covers(r.Noun) })
		if !hit {
			return diag.Fail(nil, "--replace matches nothing", "Name a network, machine, tunnel or service: lvslab graph prints them.",
				"no resource belongs to %s, neither in the topology nor in the state", n)
		}
	}
	return nil
}
