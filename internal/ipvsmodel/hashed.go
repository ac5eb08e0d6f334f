package ipvsmodel

// hashBits is the size of dh's and sh's tables: 256 buckets.
const hashBits = 8

// destinationHash is dh: the list is dealt to the buckets in turn, and the
// destination address picks a bucket. Weights count as 0 or not (ip_vs_dh.c).
type destinationHash struct {
	*service
	buckets [1 << hashBits]*dest
}

func newDestinationHash(_ *Model, s *service) scheduler {
	h := &destinationHash{service: s}
	h.deal()
	return h
}

func (h *destinationHash) deal() {
	for i := range h.buckets {
		h.buckets[i] = nil
		if n := len(h.dests); n > 0 {
			h.buckets[i] = h.dests[i%n]
		}
	}
}

func (h *destinationHash) added(*dest)        { h.deal() }
func (h *destinationHash) removed(*dest, int) { h.deal() }
func (h *destinationHash) updated(*dest)      {}

func (h *destinationHash) schedule(f *flow) *dest {
	if d := h.buckets[Hash32(f.vaddr, hashBits)]; d != nil && d.usable() {
		return d
	}
	return nil
}

// sourceHash is sh: as many buckets in a row as a weight says, and the source
// picks one (ip_vs_sh.c).
type sourceHash struct {
	*service
	buckets [1 << hashBits]*dest
}

func newSourceHash(_ *Model, s *service) scheduler {
	h := &sourceHash{service: s}
	h.deal()
	return h
}

func (h *sourceHash) deal() {
	h.buckets = [1 << hashBits]*dest{}
	if len(h.dests) == 0 {
		return
	}
	at, given := 0, 0
	for i := range h.buckets {
		d := h.dests[at]
		h.buckets[i] = d
		if given++; given >= d.weight {
			at, given = (at+1)%len(h.dests), 0
		}
	}
}

func (h *sourceHash) added(*dest)        { h.deal() }
func (h *sourceHash) removed(*dest, int) { h.deal() }
func (h *sourceHash) updated(*dest)      { h.deal() }

func (h *sourceHash) schedule(f *flow) *dest {
	x := f.caddr
	if h.spec.SHPort {
		x += uint32(f.cport)
	}
	hash := int(Hash32(x, hashBits))
	d := h.buckets[hash]
	switch {
	case d == nil:
		return nil
	case d.usable():
		return d
	case !h.spec.SHFallback:
		return nil
	}
	// The search for another one begins at twice the hash.
	for offset := range len(h.buckets) {
		if d := h.buckets[(offset+2*hash)%len(h.buckets)]; d.usable() {
			return d
		}
	}
	return nil
}
