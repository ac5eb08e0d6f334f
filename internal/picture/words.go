package picture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/lang"
)

// hows are the ways of a service, each once; "no backend" when there is none.
func hows(t *lang.Topology, s lang.Service) []string {
	var out []string
	for _, r := range s.RealServers {
		if h := how(t, s, r); !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		return []string{"no backend"}
	}
	return out
}

// service says what the service of that name is, with the scheduler that it has
// outside experiments.
func service(t *lang.Topology, s lang.Service, name string) string {
	vips := s.VIPs[0].String()
	if more := len(s.VIPs) - 1; more > 0 {
		vips += fmt.Sprintf(" +%d", more)
	}
	return fmt.Sprintf("%s: %s port %d %s, %s, %s", name, vips, s.Port, s.Protocol, s.Scheduler, strings.Join(hows(t, s), ", "))
}

// impaired names what netem does to a card, in short.
func impaired(i lang.Impair) string {
	var out []string
	for _, d := range []struct {
		name string
		time time.Duration
	}{{"delay", i.Delay}, {"jitter", i.Jitter}} {
		if d.time > 0 {
			out = append(out, fmt.Sprintf("%s %s", d.name, d.time))
		}
	}
	for _, f := range []struct {
		name     string
		fraction float64
	}{{"loss", i.Loss}, {"duplicate", i.Duplicate}, {"reorder", i.Reorder}} {
		if f.fraction > 0 {
			out = append(out, fmt.Sprintf("%s %.3g%%", f.name, f.fraction*100))
		}
	}
	if i.RateBits > 0 {
		out = append(out, fmt.Sprintf("%.4g Mbit/s", float64(i.RateBits)/1e6))
	}
	if len(out) == 0 {
		return "impaired"
	}
	return strings.Join(out, " ")
}

// Describe says in words what the picture shows.
func Describe(t *lang.Topology) string {
	out := Machines(t) + "."
	for _, n := range t.Networks {
		var on []string
		for _, m := range t.Machines {
			for _, c := range m.NICs {
				if c.Network == n.Noun {
					on = append(on, m.Noun.String())
				}
			}
		}
		out += fmt.Sprintf(" On %s %s: %s.", n.Noun, n.CIDR, strings.Join(on, ", "))
	}
	for _, s := range t.Services {
		var to []string
		for _, r := range s.RealServers {
			to = append(to, r.Backend.String())
		}
		out += fmt.Sprintf(" %s; from %s to %s.", service(t, s, s.Noun.String()), s.Director, strings.Join(to, ", "))
	}
	return out
}

// Machines counts them by what they are: "2 clients, 1 director".
func Machines(t *lang.Topology) string {
	var out []string
	for _, role := range roles {
		n := 0
		for _, m := range t.Machines {
			if m.Noun.Kind == role {
				n++
			}
		}
		switch {
		case n == 1:
			out = append(out, "1 "+string(role))
		case n > 1:
			out = append(out, fmt.Sprintf("%d %ss", n, role))
		}
	}
	if len(out) == 0 {
		return "No machine"
	}
	return strings.Join(out, ", ")
}
