package predict

import (
	"fmt"
	"net/netip"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// fold puts the addresses that the model holds in the place of those of IPv6, and
// refuses a bench in which two of them would become one.
func (b *bench) fold() error {
	folds := ipvsmodel.Folds{}
	var clash error
	fold := func(a netip.Addr) netip.Addr {
		to, err := folds.Fold(a)
		if err != nil {
			clash = err
		}
		return to
	}
	for i := range b.services {
		s := &b.services[i]
		if s.Persistence > 0 && s.VIP.Is6() && s.Netmask > 0 && s.Netmask < 128 {
			return fmt.Errorf("persistence by a network of IPv6: %w", ipvsmodel.ErrUnknown)
		}
		if s.VIP.IsValid() {
			s.VIP = fold(s.VIP)
		}
		for k := range s.Destinations {
			s.Destinations[k].Address = fold(s.Destinations[k].Address)
		}
	}
	for i := range b.processes {
		p := &b.processes[i]
		p.client = fold(p.client)
		p.vip = netip.AddrPortFrom(fold(p.vip.Addr()), p.vip.Port())
	}
	for i := range b.backends {
		b.backends[i] = fold(b.backends[i])
	}
	return clash
}
