package ipvsmodel

import "math/bits"

// mhSize is the number of slots of mh's table with the kernel's default
// CONFIG_IP_VS_MH_TAB_INDEX=12, and mhBits the width to which weights are cut
// (ip_vs_mh.c).
const (
	mhSize = 4093
	mhBits = 6
)

// maglev is mh: each destination walks the slots in an order of its own and
// takes, in turn, as many free ones as it weighs. It goes by the latest weight
// that was not 0, so a quiesced destination keeps its slots.
type maglev struct {
	*service
	slots [mhSize]*dest
}

func newMaglev(_ *Model, s *service) scheduler {
	h := &maglev{service: s}
	h.deal()
	return h
}

// walker is a destination on its walk.
type walker struct {
	d              *dest
	at, skip, turn int
}

func (h *maglev) deal() {
	h.slots = [mhSize]*dest{}
	walkers := h.walkers()
	if len(walkers) == 0 {
		return
	}
	for taken := 0; ; {
		for w := range walkers {
			for range walkers[w].turn {
				walkers[w].take(&h.slots)
				if taken++; taken == mhSize {
					return
				}
			}
		}
	}
}

// take gives the next free slot of its order to a destination.
func (w *walker) take(slots *[mhSize]*dest) {
	for slots[w.at] != nil {
		w.at = (w.at + w.skip) % mhSize
	}
	slots[w.at] = w.d
}

func (h *maglev) walkers() []walker {
	gcd := gcdOf(h.dests, (*dest).placedWeight)
	if gcd < 1 {
		return nil
	}
	heaviest := 0
	for _, d := range h.dests {
		heaviest = max(heaviest, d.lastWeight)
	}
	shift := max(0, bits.Len(uint(heaviest/gcd))-mhBits)
	var out []walker
	for _, d := range h.dests {
		if d.lastWeight == 0 {
			continue
		}
		x := d.addr + uint32(d.spec.Address.Port())
		out = append(out, walker{
			d:    d,
			at:   int(hsiphash32(x, mhKey1) % mhSize),
			skip: int(hsiphash32(x, mhKey2)%(mhSize-1)) + 1,
			turn: max(1, d.lastWeight/gcd>>shift),
		})
	}
	return out
}

func (h *maglev) added(*dest)        { h.deal() }
func (h *maglev) removed(*dest, int) { h.deal() }
func (h *maglev) updated(*dest)      { h.deal() }

func (h *maglev) schedule(f *flow) *dest {
	x := f.caddr
	if h.spec.MHPort {
		x += uint32(f.cport)
	}
	hash := hsiphash32(x, mhKey1) % mhSize
	d := h.slots[hash]
	switch {
	case d == nil:
		return nil
	case d.usable():
		return d
	case !h.spec.MHFallback:
		return nil
	}
	for offset := range uint32(mhSize) {
		again := hsiphash32(x+(offset+hash)%mhSize, mhKey1) % mhSize
		if d := h.slots[again]; d.usable() {
			return d
		}
	}
	return nil
}
