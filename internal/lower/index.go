package lower

import (
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// index finds in one step what would otherwise be looked for in a list, once for
// each of a thousand machines.
type index struct {
	tunnels   map[addr.Noun]lang.Tunnel
	leading   map[addr.Noun][]lang.Tunnel // by the machine that they lead to
	loopbacks map[addr.Noun]bool          // machines whose loopback device is set
	// serving holds pairs of a service and what it sends queries to: a backend or a
	// tunnel.
	serving map[[2]addr.Noun]bool
}

func newIndex(t *lang.Topology) index {
	x := index{tunnels: map[addr.Noun]lang.Tunnel{}, leading: map[addr.Noun][]lang.Tunnel{}, loopbacks: map[addr.Noun]bool{}, serving: map[[2]addr.Noun]bool{}}
	for _, tun := range t.Tunnels {
		x.tunnels[tun.Noun] = tun
		x.leading[tun.To] = append(x.leading[tun.To], tun)
	}
	for _, s := range t.Services {
		for _, r := range s.RealServers {
			x.serving[[2]addr.Noun{s.Noun, r.Backend}] = true
			x.serving[[2]addr.Noun{s.Noun, r.Tunnel}] = true
		}
	}
	return x
}

// serves reports whether a service sends queries to a backend, or through a tunnel.
func (x index) serves(s lang.Service, by addr.Noun) bool { return x.serving[[2]addr.Noun{s.Noun, by}] }
