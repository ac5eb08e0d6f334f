package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/provider"
)

// wantedWith is what is wanted while machines boot other images than they are
// declared with.
func (a *applying) wantedWith(other map[addr.Noun]addr.Noun) ([]provider.Resource, error) {
	if len(other) == 0 {
		return a.wanted, nil
	}
	t := *a.study.topology
	t.Machines = slices.Clone(t.Machines)
	for i, m := range t.Machines {
		if image, ok := other[m.Noun]; ok {
			t.Machines[i].Image = image
		}
	}
	return lower.Resources(&t, a.study.layout, a.lowering())
}

// otherImages are those that a director boots for runs of this apply, each with the
// director alone.
func (a *applying) otherImages() []map[addr.Noun]addr.Noun {
	var out []map[addr.Noun]addr.Noun
	for _, e := range a.study.topology.Experiments {
		svc, ok := a.study.topology.Service(e.Service)
		if !ok || len(trialsOf(a.todo, e)) == 0 {
			continue
		}
		for _, n := range e.Kernels() {
			out = append(out, map[addr.Noun]addr.Noun{svc.Director: n})
		}
	}
	return out
}

// releases are what uname -r has to say on an experiment's director, by the image
// that it boots, the zero noun for the declared one. An image that does not tell is
// left out.
func (a *applying) releases(e lang.Experiment) map[addr.Noun]string {
	out := map[addr.Noun]string{}
	put := func(image addr.Noun, g guestKind) {
		if g.image.KernelRelease != "" {
			out[image] = g.image.KernelRelease
		}
	}
	for _, n := range e.Kernels() {
		put(n, a.guestIn(n))
	}
	if svc, ok := a.study.topology.Service(e.Service); ok {
		if m, ok := a.study.topology.Machine(svc.Director); ok {
			put(addr.Noun{}, a.guestOf(m))
		}
	}
	return out
}

// rules are those that the images' kernels decide by, as far as their packages tell.
func rules(guests []guestKind) map[addr.Noun]ipvsmodel.Kernel {
	out := map[addr.Noun]ipvsmodel.Kernel{}
	for _, g := range guests {
		out[g.block] = ipvsmodel.KernelOf(g.image.KernelVersion())
	}
	return out
}

// cachedRules are the rules of those kernels whose images are in the cache.
func (a *applying) cachedRules() (map[addr.Noun]ipvsmodel.Kernel, error) {
	list, err := guestsOf(a.study.topology)
	if err != nil {
		return nil, err
	}
	for i := range list {
		img, _, err := images.Cached(list[i].recipe, a.cache)
		if err != nil {
			return nil, err
		}
		list[i].image = guestImage{Image: img}
	}
	return rules(list), nil
}

// kernelsText says which kernels the runs of an experiment have, for a plan, "" when
// it is the declared one.
func (a *applying) kernelsText(e lang.Experiment) string {
	var list []string
	for _, n := range e.Kernels() {
		text := n.String()
		if release := a.guestIn(n).image.KernelRelease; release != "" {
			text += " Linux " + release
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return ""
	}
	svc, _ := a.study.topology.Service(e.Service)
	return fmt.Sprintf("%s: %s boots for its runs %s", e.Noun, svc.Director, strings.Join(list, ", "))
}
