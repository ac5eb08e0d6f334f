package state

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lvslab/lvslab/internal/addr"
)

// Renamed is the state as it would be had everything always been called as it is
// today, given the new address of each noun that has another one. What exists
// keeps the identity that it was made with, see Identities; they are forgotten
// once nothing of the lab exists.
func (s State) Renamed(to map[addr.Noun]addr.Noun) State {
	s.Identities = s.living(to)
	if len(to) == 0 {
		return s
	}
	old := s.Resources
	s.Resources = nil
	for _, r := range old {
		s.Resources = append(s.Resources, r.renamed(to))
	}
	slices.SortFunc(s.Resources, func(x, y Resource) int { return x.Addr.Compare(y.Addr) })
	addresses := map[string]netip.Addr{}
	for slot, ip := range s.Addresses {
		if r, err := addr.ParseResource(slot); err == nil {
			slot = today(to, r).String()
		}
		addresses[slot] = ip
	}
	s.Addresses = addresses
	return s
}

func today(to map[addr.Noun]addr.Noun, r addr.Resource) addr.Resource {
	if n, moved := to[r.Noun]; moved {
		r.Noun = n
	}
	return r
}

// living are the identities by the names of today. Those of single things that
// are gone are kept: what the state was made to forget may still run.
func (s State) living(to map[addr.Noun]addr.Noun) map[addr.Noun]addr.Noun {
	if len(s.Resources) == 0 {
		return nil
	}
	out := map[addr.Noun]addr.Noun{}
	for n, id := range s.Identities {
		if now := today(to, addr.Resource{Noun: n}).Noun; now != id {
			out[now] = id
		}
	}
	for _, r := range s.Resources {
		id := r.Addr.Noun
		if other, ok := s.Identities[id]; ok {
			id = other
		}
		if now := today(to, r.Addr).Noun; now != id {
			out[now] = id
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (r Resource) renamed(to map[addr.Noun]addr.Noun) Resource {
	r.Addr, r.Within, r.DependsOn = today(to, r.Addr), today(to, r.Within), slices.Clone(r.DependsOn)
	for i, d := range r.DependsOn {
		r.DependsOn[i] = today(to, d)
	}
	slices.SortFunc(r.DependsOn, addr.Resource.Compare)
	// What is set in a guest says in the attribute node which machine that is.
	var attrs map[string]json.RawMessage
	var node addr.Noun
	if json.Unmarshal(r.Attrs, &attrs) != nil || attrs["node"] == nil || json.Unmarshal(attrs["node"], &node) != nil {
		return r // attributes that cannot be read are told of where they are used
	}
	now, moved := to[node]
	if !moved {
		return r
	}
	name, err := json.Marshal(now)
	if err != nil {
		return r
	}
	attrs["node"] = name
	if text, err := json.Marshal(attrs); err == nil {
		r.Attrs = text
	}
	return r
}

// Move gives what exists other addresses, as [State.Renamed] does, then applies
// the change, which may be nil. Nothing is touched but the state.
func (s *Store) Move(to map[addr.Noun]addr.Noun, change func(*State) error) error {
	return s.update(func(st *State) error {
		before := len(st.Resources)
		*st = st.Renamed(to)
		if change != nil {
			if err := change(st); err != nil {
				return err
			}
		}
		if len(st.Resources) != before { // two of one address are refused when the state is checked
			return fmt.Errorf("%w: there were %d of them", ErrForgetting, before)
		}
		return nil
	}, true)
}
