package fake

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

// World is where the fake's objects exist, independent of any provider: a host
// with its machines and what is set in them.
//
// As on a real one, an object is known by what it is and not by what somebody
// calls it: two machines of different UUIDs stand side by side, a name that is
// taken is refused, and what is set in a machine belongs to its boot.
type World struct {
	shelf shelf
	mu    *sync.Mutex
	lab   string
}

// Open returns the world whose objects are the files of a directory.
func Open(dir string) (World, error) {
	return World{shelf: folder(dir), mu: &sync.Mutex{}}, os.MkdirAll(dir, 0o755)
}

// InMemory returns a world that ends with the process.
func InMemory() World {
	return World{shelf: newMemory(), mu: &sync.Mutex{}}
}

// Lab returns the same world as another lab sees it: addresses are its own, names
// on the host are everybody's.
func (w World) Lab(name string) World {
	w.lab = name
	return w
}

// Clone returns a copy in memory that goes its own way from here.
func (w World) Clone() (World, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	objects, err := w.shelf.all()
	if err != nil {
		return World{}, err
	}
	m := newMemory()
	for _, o := range objects {
		if err := m.put(o); err != nil {
			return World{}, err
		}
	}
	m.lastCount, err = w.shelf.count()
	return World{shelf: m, mu: &sync.Mutex{}, lab: w.lab}, err
}

// object is what the world holds under one key.
type object struct {
	Lab    string        `json:"lab,omitempty"`
	Addr   addr.Resource `json:"address"`
	Within addr.Resource `json:"within,omitzero"`
	UUID   string        `json:"uuid,omitempty"`
	Piece  string        `json:"piece,omitempty"` // of an object that consists of several
	Claims []string      `json:"claims,omitempty"`
	Boot   int           `json:"boot"`
	// The attributes without the computed ones: as text on a disk, as they are in
	// memory.
	Attrs json.RawMessage `json:"attributes"`
	attrs cty.Value
}

// Get returns an object's attributes and whether it exists. It must be in one
// piece.
func (w World) Get(a addr.Resource, s provider.Schema) (cty.Value, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, found, err := w.one(a)
	if err != nil || !found {
		return cty.NilVal, false, err
	}
	v, err := o.value(s)
	return v, err == nil, err
}

// Has reports whether an object, or a piece of one, exists.
func (w World) Has(a addr.Resource) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.mine(a)
	return len(all) > 0, err
}

// Set makes or changes an object, as a user outside lvslab may do too.
func (w World) Set(a, within addr.Resource, v cty.Value) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.put(object{Addr: a, Within: within, UUID: text(v, "uuid"), attrs: v})
}

// Remove takes an object and what is within it, however deep, out of the world.
func (w World) Remove(a addr.Resource) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine, err := w.mine(a)
	if err != nil {
		return err
	}
	for _, o := range mine {
		if err := w.remove(o); err != nil {
			return err
		}
	}
	return nil
}

// Reboot begins a machine's next boot: what was set in it is gone.
func (w World) Reboot(a addr.Resource) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, found, err := w.one(a)
	if err != nil || !found {
		return fmt.Errorf("%s does not exist: %w", a, err)
	}
	if err := w.empty(o); err != nil {
		return err
	}
	if o.Boot, err = w.shelf.count(); err != nil {
		return err
	}
	return w.shelf.put(o)
}

// Objects returns the addresses of all that the lab has, in order.
func (w World) Objects() ([]addr.Resource, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.shelf.all()
	var out []addr.Resource
	for _, o := range all {
		if o.Lab == w.lab {
			out = append(out, o.Addr)
		}
	}
	slices.SortFunc(out, addr.Resource.Compare)
	return slices.Compact(out), err
}

// Dump describes everything that the lab has, a line each in a fixed order. Equal
// dumps are equal worlds, but for the numbers of the boots.
func (w World) Dump() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.shelf.all()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, o := range all {
		if o.Lab != w.lab {
			continue
		}
		attrs, err := o.text()
		if err != nil {
			return "", err
		}
		line := fmt.Sprintf("%s %s %s %s", o.Addr, o.UUID, o.Piece, attrs)
		if boot, err := w.bootOf(o.Within); err != nil || !o.Within.IsZero() && boot != o.Boot {
			line += fmt.Sprintf(" of an earlier boot of %s (%v)", o.Within, err)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// put writes an object unless a name of it is taken, with the boot that it
// belongs to: its own one, which begins with it, or its holder's.
func (w World) put(o object) error {
	o.Lab = w.lab
	old, exists, err := w.shelf.get(o.key())
	if err != nil {
		return err
	}
	switch {
	case !o.Within.IsZero():
		if o.Boot, err = w.bootOf(o.Within); err != nil {
			return err
		}
	case exists:
		o.Boot = old.Boot
	default:
		if o.Boot, err = w.shelf.count(); err != nil {
			return err
		}
	}
	if err := w.free(o); err != nil {
		return err
	}
	return w.shelf.put(o)
}

// free refuses a name that another object on the same host, or in the same
// machine, has.
func (w World) free(o object) error {
	if len(o.Claims) == 0 {
		return nil
	}
	neighbours, err := w.shelf.in(o.holder())
	if err != nil {
		return err
	}
	for _, other := range neighbours {
		if other.key() == o.key() {
			continue
		}
		for _, c := range o.Claims {
			if slices.Contains(other.Claims, c) {
				return fmt.Errorf("%s: %q is taken by %s %s: %w", o.Addr, c, other.Lab, other.Addr, provider.ErrForeign)
			}
		}
	}
	return nil
}

// bootOf returns the present boot of a machine, 0 for the host.
func (w World) bootOf(machine addr.Resource) (int, error) {
	if machine.IsZero() {
		return 0, nil
	}
	o, found, err := w.one(machine)
	if err == nil && !found {
		err = fmt.Errorf("%s does not exist", machine)
	}
	return o.Boot, err
}

func (w World) remove(o object) error {
	if err := w.empty(o); err != nil {
		return err
	}
	return w.shelf.drop(o.key())
}

// empty removes what is within an object.
func (w World) empty(o object) error {
	contents, err := w.shelf.in(o.place())
	if err != nil {
		return err
	}
	for _, in := range contents {
		if in.Addr == o.Addr {
			continue
		}
		if err := w.remove(in); err != nil {
			return err
		}
	}
	return nil
}

// one returns the object of an address. Two of them are what must never be.
func (w World) one(a addr.Resource) (object, bool, error) {
	mine, err := w.mine(a)
	switch {
	case err != nil || len(mine) == 0:
		return object{}, false, err
	case len(mine) > 1:
		return object{}, false, fmt.Errorf("%s exists %d times", a, len(mine))
	}
	return mine[0], true, nil
}

// mine returns what the lab has at that address.
func (w World) mine(a addr.Resource) ([]object, error) { return w.shelf.at(place{w.lab, a}) }
