package ipvs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Apply makes the service what is asked for and returns what was read back. A
// new service is created; of an existing one scheduler, flags and persistence
// are replaced as a whole, weights, thresholds and forwarding methods in place.
//
// The order of destinations is theirs in the kernel's list, first = head. The
// kernel adds at the head (ip_vs_ctl.c, __ip_vs_update_dest), so a list in
// another order is rebuilt by deleting what stands in the way and adding in
// reverse; the tail that is already right stays. A destination that is deleted
// and added again takes its living entries with it.
//
// Timeouts that are not 0 are set for the whole namespace.
func (h *Handle) Apply(ctx context.Context, s proto.IPVSService) (proto.IPVSService, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	want := normalise(s)
	if err := validate(want); err != nil {
		return proto.IPVSService{}, err
	}
	if err := h.k.loadScheduler(ctx, want.Scheduler); err != nil {
		return proto.IPVSService{}, err
	}
	if err := h.setTimeouts(ctx, want.Timeouts); err != nil {
		return proto.IPVSService{}, err
	}
	got, err := h.find(ctx, want.IPVSKey)
	switch {
	case errors.Is(err, ErrNotFound):
		err = h.k.newService(want)
	case err == nil && serviceDiff(want, got) != nil:
		err = h.k.setService(want)
	}
	if err != nil {
		return proto.IPVSService{}, err
	}
	if err := h.converge(want, got.Destinations); err != nil {
		return proto.IPVSService{}, err
	}
	if got, err = h.find(ctx, want.IPVSKey); err != nil {
		return proto.IPVSService{}, err
	}
	return got, verify(want, got)
}

// converge brings the destinations into the wished order and state.
func (h *Handle) converge(want proto.IPVSService, have []proto.IPVSDestination) error {
	keep := want.Destinations // the tail of the wish that stays in place
	i := len(keep)
	for _, d := range slices.Backward(have) {
		if i > 0 && sameDest(keep[i-1], d) {
			i--
			if destDiff(keep[i], d) != nil {
				if err := h.k.setDestination(want.IPVSKey, keep[i]); err != nil {
					return err
				}
			}
			continue
		}
		if err := h.k.delDestination(want.IPVSKey, d); err != nil {
			return err
		}
	}
	for _, d := range slices.Backward(want.Destinations[:i]) {
		if err := h.k.newDestination(want.IPVSKey, d); err != nil {
			return err
		}
	}
	return nil
}

// verify compares a service as wished with the same as read back.
func verify(want, got proto.IPVSService) error {
	if m := serviceDiff(want, got); m != nil {
		return m
	}
	t := want.Timeouts
	if g := got.Timeouts; t.TCP != 0 && t.TCP != g.TCP || t.TCPFin != 0 && t.TCPFin != g.TCPFin || t.UDP != 0 && t.UDP != g.UDP {
		return &MismatchError{Subject: Name(want.IPVSKey), What: "timeouts", Want: fmt.Sprint(t), Got: fmt.Sprint(g)}
	}
	if !slices.EqualFunc(want.Destinations, got.Destinations, sameDest) {
		return &MismatchError{Subject: Name(want.IPVSKey), What: "destinations, head first",
			Want: destNames(want.Destinations), Got: destNames(got.Destinations)}
	}
	for i, d := range want.Destinations {
		if m := destDiff(d, got.Destinations[i]); m != nil {
			m.Subject = Name(want.IPVSKey) + " → " + destName(d)
			return m
		}
	}
	return nil
}

// serviceDiff returns the first setting of the service itself that differs.
func serviceDiff(want, got proto.IPVSService) *MismatchError {
	wantFlags, _ := flagBits(want)
	gotFlags, _ := flagBits(got)
	for _, c := range []struct {
		what      string
		want, got any
	}{
		{"scheduler", want.Scheduler, got.Scheduler},
		{"flags", fmt.Sprintf("%#x", wantFlags), fmt.Sprintf("%#x", gotFlags)},
		{"persistence in seconds", want.Persistence, got.Persistence},
		{"netmask", want.Netmask, got.Netmask},
	} {
		if c.want != c.got {
			return &MismatchError{Subject: Name(want.IPVSKey), What: c.what, Want: fmt.Sprint(c.want), Got: fmt.Sprint(c.got)}
		}
	}
	return nil
}

// destDiff returns the first setting of a destination that differs.
func destDiff(want, got proto.IPVSDestination) *MismatchError {
	// The kernel fills in a lower threshold of 3/4 of the upper one when none is
	// given, for its decisions, but reports what it was given.
	for _, c := range []struct {
		what      string
		want, got any
	}{
		{"forward", want.Forward, got.Forward},
		{"weight", want.Weight, got.Weight},
		{"upper threshold", want.Upper, got.Upper},
		{"lower threshold", want.Lower, got.Lower},
		{"tunnel type", want.TunnelType, got.TunnelType},
		{"tunnel port", want.TunnelPort, got.TunnelPort},
		{"tunnel checksum", want.TunnelChecksum, got.TunnelChecksum},
	} {
		if c.want != c.got {
			return &MismatchError{Subject: destName(want), What: c.what, Want: fmt.Sprintf("%#v", c.want), Got: fmt.Sprintf("%#v", c.got)}
		}
	}
	return nil
}
