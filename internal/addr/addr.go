// Package addr holds the typed addresses of everything lvslab talks about:
// nouns of the topology (backend.ns[0], tunnel.lb-ns["backend.ns[0]"]) and the
// resources they are lowered to (backend.ns[0]/domain, service.dns/ipvs).
package addr

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the block type of a noun.
type Kind string

// The kinds of nouns that become something on the host or in a guest, or that
// users name on the command line.
const (
	Lab        Kind = "lab"
	Network    Kind = "network"
	Client     Kind = "client"
	Director   Kind = "director"
	Backend    Kind = "backend"
	Router     Kind = "router"
	Tunnel     Kind = "tunnel"
	Zone       Kind = "zone"
	Service    Kind = "service"
	Experiment Kind = "experiment"
	// Population is who asks in a what-if of lvslab predict; nothing is made of it.
	Population Kind = "population"
	Image      Kind = "image"
	// ModuleCall is the call of a module: all that is inside one instance of it.
	ModuleCall Kind = "module"
)

// Machine reports whether nouns of this kind are virtual machines.
func (k Kind) Machine() bool {
	return k == Client || k == Director || k == Backend || k == Router
}

// Key is an instance key: none, an index (count) or a string (for_each).
// The zero Key is "none". Keys are comparable.
type Key struct {
	kind  byte // 0 none, 'i' index, 's' string
	index int
	name  string
}

// NoKey is the key of a block without count and for_each.
var NoKey = Key{}

// Index returns the key of the i-th instance of a counted block.
func Index(i int) Key { return Key{kind: 'i', index: i} }

// Name returns the key of a for_each instance.
func Name(s string) Key { return Key{kind: 's', name: s} }

// IsNone reports whether the block has a single instance without a key.
func (k Key) IsNone() bool { return k.kind == 0 }

// AsIndex returns the index and whether the key is one.
func (k Key) AsIndex() (int, bool) { return k.index, k.kind == 'i' }

// AsName returns the for_each name and whether the key is one.
func (k Key) AsName() (string, bool) { return k.name, k.kind == 's' }

// String returns "", "[3]" or `["a"]`.
func (k Key) String() string {
	switch k.kind {
	case 'i':
		return "[" + strconv.Itoa(k.index) + "]"
	case 's':
		return "[" + strconv.Quote(k.name) + "]"
	}
	return ""
}

// Noun is the address of one instance of a block: the module that it is in,
// kind, label and key. It is comparable and serves as a map key.
type Noun struct {
	Module Module
	Kind   Kind
	Label  string
	Key    Key
}

// N is short for a noun of the root without a key.
func N(kind Kind, label string) Noun { return Noun{Kind: kind, Label: label} }

// At returns the noun's instance with that key.
func (n Noun) At(k Key) Noun { n.Key = k; return n }

// Block returns the address without its instance key.
func (n Noun) Block() Noun { n.Key = NoKey; return n }

// In returns the noun as a part of a module.
func (n Noun) In(m Module) Noun { n.Module = m; return n }

// Name is the label, with the module before it where there is one: unique among
// nouns of one kind that have no instances, as experiments.
func (n Noun) Name() string { return n.Module.prefix() + n.Label }

// Inside returns the path that a module call, and only such, stands for.
func (n Noun) Inside() Module { return n.Module.Child(n.Label, n.Key) }

// Covers reports whether the other noun is this one, an instance of it, or,
// for a module call, something inside of it.
func (n Noun) Covers(o Noun) bool {
	if n == o || n == o.Block() {
		return true
	}
	if n.Kind != ModuleCall || o.Module == "" {
		return false
	}
	if !n.Key.IsNone() || !n.Module.Contains(o.Module) {
		return n.Inside().Contains(o.Module)
	}
	for _, call := range o.Module.Calls() {
		if call.Block() == n {
			return true
		}
	}
	return false
}

// String returns the address as users write it, for example backend.ns[0].
func (n Noun) String() string {
	return n.Module.prefix() + string(n.Kind) + "." + n.Label + n.Key.String()
}

// IsZero reports whether the address is empty.
func (n Noun) IsZero() bool { return n == Noun{} }

// Compare orders addresses by module, kind, label and key, indexes by number.
func (n Noun) Compare(o Noun) int {
	return cmp.Or(n.Module.Compare(o.Module), cmp.Compare(n.Kind, o.Kind), cmp.Compare(n.Label, o.Label),
		cmp.Compare(n.Key.kind, o.Key.kind), cmp.Compare(n.Key.index, o.Key.index), cmp.Compare(n.Key.name, o.Key.name))
}

// MarshalText and UnmarshalText use the form of [Noun.String].
func (n Noun) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText parses the form of [Noun.String].
func (n *Noun) UnmarshalText(b []byte) error {
	v, err := ParseNoun(string(b))
	if err == nil {
		*n = v
	}
	return err
}

// ParseNoun parses kind.label, kind.label[0] and kind.label["key"], each with
// the module.label of its modules before it, or these alone.
func ParseNoun(s string) (Noun, error) {
	wrong := func(err error) (Noun, error) { return Noun{}, fmt.Errorf("address %q: %w", s, err) }
	in, rest := Module(""), s
	for strings.HasPrefix(rest, "module.") {
		call, after, err := step(rest)
		if err != nil {
			return wrong(err)
		}
		call.Module = in
		if after == "" {
			return call, nil
		}
		in, rest = call.Inside(), after
	}
	kind, rest, ok := strings.Cut(rest, ".")
	if !ok || kind == "" {
		return wrong(errors.New("want kind.label, for example backend.ns or backend.ns[0]"))
	}
	n := Noun{Module: in, Kind: Kind(kind), Label: rest}
	if i := strings.IndexByte(rest, '['); i >= 0 {
		key, after, err := cutKey(rest[i:])
		if err == nil && after != "" {
			err = errors.New("something follows the instance key")
		}
		if err != nil {
			return wrong(err)
		}
		n.Label, n.Key = rest[:i], key
	}
	if err := checkLabel(n.Label); err != nil {
		return wrong(err)
	}
	return n, nil
}

// Resource is the address of one thing that a provider creates: the noun it
// belongs to and the part of it, for example director.lb/link.lan.
type Resource struct {
	Noun Noun
	Part string
}

// String returns noun/part.
func (r Resource) String() string { return r.Noun.String() + "/" + r.Part }

// IsZero reports whether the address is empty.
func (r Resource) IsZero() bool { return r == Resource{} }

// Compare orders by noun, then by part.
func (r Resource) Compare(o Resource) int {
	return cmp.Or(r.Noun.Compare(o.Noun), cmp.Compare(r.Part, o.Part))
}

// MarshalText returns the form of [Resource.String].
func (r Resource) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses the form of [Resource.String].
func (r *Resource) UnmarshalText(b []byte) error {
	v, err := ParseResource(string(b))
	if err == nil {
		*r = v
	}
	return err
}

// ParseResource parses noun/part. A for_each key may hold a slash itself, so
// the part is what follows the last one outside the brackets.
func ParseResource(s string) (Resource, error) {
	from := strings.LastIndexByte(s, ']') + 1
	i := strings.IndexByte(s[from:], '/')
	if i < 0 || from+i+1 == len(s) {
		return Resource{}, fmt.Errorf("resource address %q: want noun/part, for example director.lb/domain", s)
	}
	n, err := ParseNoun(s[:from+i])
	if err != nil {
		return Resource{}, err
	}
	return Resource{Noun: n, Part: s[from+i+1:]}, nil
}
