package predict

// Planned are the decisions by backend, nil unless they are certain before the
// run: those of a treatment of kind [Exact]. Over TCP dnsperf may connect again, and
// then there are more, while lvslab's own generator never does. With persistence IPVS counts entries that a
// template made as well, so there is nothing to compare with.
func (c Cell) Planned() map[string]int {
	if c.Kind != Exact || c.tcp && c.reconnects || c.cut || c.persistent {
		return nil
	}
	out := map[string]int{}
	for _, s := range c.Shares {
		out[s.Backend] += int(s.Decisions)
	}
	return out
}
