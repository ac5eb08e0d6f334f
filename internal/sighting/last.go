package sighting

import "strings"

// Last says in sentences how far a query or its answer was seen, and what was amiss on
// the way; the last one has no full stop. "" when all was as it should be.
func (p Path) Last() string {
	var list []string
	switch n := len(p.Hops); {
	case n == 0:
		list = append(list, "No card was seen to send or receive the query")
	case !p.Whole:
		list = append(list, p.Hops[n-1].last())
	}
	for _, d := range p.Defects {
		list = append(list, strings.TrimSuffix(d.Detail, ".")+" ("+d.Name+")")
	}
	return strings.Join(list, ". ")
}

// last says that a frame was the last one of its way.
func (h Hop) last() string {
	text := "The " + h.Leg
	if len(h.Headers) > 1 {
		text += ", in " + h.Headers[0].Carries + ","
	}
	if h.Leg == Answer {
		text += " from " + h.Headers[len(h.Headers)-1].Source.String()
	}
	where := " on " + h.Device
	if h.Direction == "out" {
		return text + " was last seen when " + h.Node + " sent it" + where + " to " + h.DestinationMAC
	}
	return text + " was last seen when " + h.Node + " received it" + where
}
