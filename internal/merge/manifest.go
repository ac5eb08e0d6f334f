package merge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// fits compares a result with those before it: what decides outcomes must be the
// same in all of them. What only decides times may differ; it is in the parts.
func fits(before []*artifact.Artifact, p *artifact.Artifact) error {
	for _, o := range before {
		if o.Dir() == p.Dir() {
			return unfit("A result is named twice", "Name each result once.", "%s", p.Dir())
		}
	}
	if len(before) == 0 {
		return nil
	}
	first := before[0]
	a, b := first.Manifest(), p.Manifest()
	for _, c := range []struct{ what, a, b string }{
		{"lab", a.Lab, b.Lab}, {"topology", a.Topology, b.Topology}, {"accelerator", a.Accelerator, b.Accelerator},
		{"guest images", fmt.Sprint(a.Images), fmt.Sprint(b.Images)}, {"seeds", fmt.Sprint(a.Seeds), fmt.Sprint(b.Seeds)},
		{"study (experiments, topology, images, accelerator)", a.Study, b.Study},
		{"version of lvslab", a.Versions.Lvslab, b.Versions.Lvslab},
		{"guests' kernel", a.Versions.GuestKernel, b.Versions.GuestKernel}, {"IPVS", a.Versions.IPVS, b.Versions.IPVS},
		{"order of blocks", fmt.Sprint(a.BlockOrder), fmt.Sprint(b.BlockOrder)},
		{"factors", fmt.Sprint(first.Factors()), fmt.Sprint(p.Factors())},
		{"addresses", fmt.Sprint(a.Addresses), fmt.Sprint(b.Addresses)},
		{"order of the backends", fmt.Sprint(a.DestinationOrder), fmt.Sprint(b.DestinationOrder)},
		{"kernel parameters of the guests", fmt.Sprint(a.Sysctls), fmt.Sprint(b.Sysctls)},
	} {
		if c.a != c.b {
			then, now := apart(c.a, c.b)
			return unfit("The results are not of one study", "Merge results of the same topology, variables and lvslab; compare others with: lvslab compare.",
				"%s and %s differ in their %s: %s and %s", first.Dir(), p.Dir(), c.what, then, now)
		}
	}
	return nil
}

// shownApart is how much of two texts is shown around their first difference.
const shownApart = 60

// apart shows two texts from shortly before their first difference on.
func apart(a, b string) (string, string) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string {
		from := max(0, i-shownApart/2)
		out := strings.ToValidUTF8(s[from:min(len(s), from+shownApart)], "")
		if from > 0 {
			out = "…" + out
		}
		if from+shownApart < len(s) {
			out += "…"
		}
		if out == "" {
			return "none"
		}
		return out
	}
	return cut(a), cut(b)
}

// manifest is what the parts have in common, with the sessions of all of them.
func (w *Whole) manifest() {
	m := w.parts[0].Manifest()
	m.Shard, m.Sessions, m.Files, m.Timings, m.GuestSeeds, m.Clones = "", nil, nil, artifact.Timings{}, nil, nil
	m.Renewed, m.RunOrder = nil, nil
	for _, p := range w.parts {
		o := p.Manifest()
		m.Parts = append(m.Parts, artifact.Part{Result: o.Run, Shard: o.Shard, Manifest: p.Sum(), Host: o.Host, HostKernel: o.Versions.HostKernel, Timings: o.Timings})
		for _, s := range o.Sessions {
			s.Result = o.Run
			m.Sessions = append(m.Sessions, s)
		}
		for run, boots := range o.Renewed {
			if m.Renewed == nil {
				m.Renewed = map[string]map[string]string{}
			}
			m.Renewed[run] = boots
		}
		if o.StartedAt.Before(m.StartedAt) {
			m.StartedAt = o.StartedAt
		}
		if o.Host != m.Host {
			m.Host = artifact.Host{} // times of two machines are not those of one
		}
		if o.Lineage != m.Lineage {
			m.Lineage = ""
		}
		both(&m.Versions.HostKernel, o.Versions.HostKernel)
		both(&m.Versions.QEMU, o.Versions.QEMU)
		both(&m.Versions.Libvirt, o.Versions.Libvirt)
	}
	for _, r := range w.Runs {
		m.RunOrder = append(m.RunOrder, r.RunID)
	}
	w.Manifest = m
}

// both keeps each version once.
func both(list *string, v string) {
	if v == "" || slices.Contains(strings.Split(*list, ", "), v) {
		return
	}
	if *list != "" {
		*list += ", "
	}
	*list += v
}
