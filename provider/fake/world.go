package fake

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/provider"
)

// World is where the fake's objects exist, independent of any provider: it
// outlives a crash of the process that uses it when it is a directory.
type World struct {
	dir string
	mu  *sync.Mutex
}

// Open returns the world whose objects are the files of a directory.
func Open(dir string) (World, error) {
	return World{dir: dir, mu: &sync.Mutex{}}, os.MkdirAll(dir, 0o755)
}

type object struct {
	Within addr.Resource   `json:"within,omitzero"`
	Attrs  json.RawMessage `json:"attributes"`
}

const ext = ".json"

// path names an object's file. Addresses hold slashes and brackets; in hex
// every one of them is a file name.
func (w World) path(a addr.Resource) string {
	return filepath.Join(w.dir, hex.EncodeToString([]byte(a.String()))+ext)
}

// Get returns an object's attributes and whether it exists.
func (w World) Get(a addr.Resource, s provider.Schema) (cty.Value, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, found, err := w.load(a)
	if err != nil || !found {
		return cty.NilVal, false, err
	}
	v, err := ctyjson.Unmarshal(o.Attrs, s.Type())
	return v, err == nil, err
}

// Has reports whether an object exists.
func (w World) Has(a addr.Resource) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, found, err := w.load(a)
	return found, err
}

// Set makes or changes an object, as a user outside lvslab may do too.
func (w World) Set(a, within addr.Resource, v cty.Value) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	attrs, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return err
	}
	b, err := json.Marshal(object{within, attrs})
	if err != nil {
		return err
	}
	// Renamed, so that a process that dies here leaves no half object.
	tmp := w.path(a) + ".new"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, w.path(a))
}

// Remove takes an object and what is within it, however deep, out of the world.
func (w World) Remove(a addr.Resource) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.all()
	if err != nil {
		return err
	}
	return w.remove(a, all)
}

func (w World) remove(a addr.Resource, all map[addr.Resource]object) error {
	var err error
	for b, o := range all {
		if o.Within == a && b != a {
			err = errors.Join(err, w.remove(b, all))
		}
	}
	if rerr := os.Remove(w.path(a)); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// Objects returns the addresses of all that exists, in order.
func (w World) Objects() ([]addr.Resource, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := w.all()
	var out []addr.Resource
	for a := range all {
		out = append(out, a)
	}
	slices.SortFunc(out, addr.Resource.Compare)
	return out, err
}

func (w World) all() (map[addr.Resource]object, error) {
	files, err := filepath.Glob(filepath.Join(w.dir, "*"+ext))
	if err != nil {
		return nil, err
	}
	out := map[addr.Resource]object{}
	for _, f := range files {
		name, err := hex.DecodeString(strings.TrimSuffix(filepath.Base(f), ext))
		if err != nil {
			return nil, err
		}
		a, err := addr.ParseResource(string(name))
		if err != nil {
			return nil, err
		}
		o, found, err := w.load(a)
		if err != nil {
			return nil, err
		}
		if found {
			out[a] = o
		}
	}
	return out, nil
}

func (w World) load(a addr.Resource) (object, bool, error) {
	b, err := os.ReadFile(w.path(a))
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, false, nil
	}
	if err != nil {
		return object{}, false, err
	}
	var o object
	err = json.Unmarshal(b, &o)
	return o, err == nil, err
}
