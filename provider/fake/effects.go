package fake

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// writing returns the effects that make or change an object. Each can be the last
// one.
func (w World) writing(r provider.Resource, s provider.Schema, p Pieces, prior cty.Value) []func() error {
	if p.Attribute == "" {
		return []func() error{func() error {
			before, _, err := w.find(r, s, r.Attrs, "")
			if err != nil {
				return err
			}
			return w.writingOne(r, s, half(s, before, r.Attrs), "")()
		}, w.writingOne(r, s, r.Attrs, "")}
	}
	var effects []func() error
	wanted := p.names(r.Attrs)
	for _, name := range p.names(prior) {
		if !slices.Contains(wanted, name) {
			effects = append(effects, w.dropping(r, name))
		}
	}
	for _, piece := range p.of(r.Attrs) {
		effects = append(effects, w.writingOne(r, s, p.with(r.Attrs, []cty.Value{piece}), p.Name(piece)))
	}
	return effects
}

// writingOne returns the effect that writes an object or one of its pieces, which
// holds the other attributes, too.
func (w World) writingOne(r provider.Resource, s provider.Schema, v cty.Value, piece string) func() error {
	return func() error {
		o := newObject(r, s, v)
		if piece != "" {
			o.Piece, o.Claims = piece, []string{piece}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.put(o)
	}
}

func (w World) dropping(r provider.Resource, piece string) func() error {
	return func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.shelf.drop(key{place{w.lab, r.Addr}, "", piece})
	}
}

// deleting returns the effects that take away what prior describes.
func (w World) deleting(r provider.Resource, p Pieces, prior cty.Value) []func() error {
	if p.Attribute != "" {
		var effects []func() error
		for _, name := range p.names(prior) {
			effects = append(effects, w.dropping(r, name))
		}
		return effects
	}
	return []func() error{func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		o, found, err := w.shelf.get(w.key(r, prior, ""))
		if err != nil || !found {
			return err
		}
		return w.remove(o)
	}}
}

// read returns what there is of an object that prior describes.
func (w World) read(r provider.Resource, s provider.Schema, p Pieces, prior cty.Value) (cty.Value, error) {
	gone := fmt.Errorf("gone from the world: %w", provider.ErrGone)
	if p.Attribute == "" {
		v, found, err := w.find(r, s, prior, "")
		if err == nil && !found {
			err = gone
		}
		return v, err
	}
	var pieces []cty.Value
	var whole cty.Value
	for _, name := range p.names(prior) {
		v, found, err := w.find(r, s, prior, name)
		if err != nil {
			return cty.NilVal, err
		}
		if !found {
			continue
		}
		pieces = append(pieces, p.of(v)...)
		if whole == cty.NilVal || !p.with(v, nil).RawEquals(p.with(prior, nil)) {
			whole = v // what is not as it was is what is told
		}
	}
	if len(pieces) == 0 {
		return cty.NilVal, gone
	}
	return p.with(whole, pieces), nil
}

// find returns the object, or the piece, of that identity.
func (w World) find(r provider.Resource, s provider.Schema, prior cty.Value, piece string) (cty.Value, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, found, err := w.shelf.get(w.key(r, prior, piece))
	if err != nil || !found {
		return cty.NilVal, false, err
	}
	v, err := o.value(s)
	return v, err == nil, err
}

func (w World) key(r provider.Resource, prior cty.Value, piece string) key {
	return key{place{w.lab, r.Addr}, text(prior, "uuid"), piece}
}
