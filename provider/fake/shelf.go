package fake

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
)

// key is what an object is known by.
type key struct {
	place
	uuid, piece string
}

// place is an address of a lab; the zero value is the host.
type place struct {
	lab  string
	addr addr.Resource
}

func (o object) place() place { return place{o.Lab, o.Addr} }
func (o object) key() key     { return key{o.place(), o.UUID, o.Piece} }

// holder is where an object is. All labs' machines are on one host.
func (o object) holder() place {
	if o.Within.IsZero() {
		return place{}
	}
	return place{o.Lab, o.Within}
}

// shelf keeps objects. The world locks it.
type shelf interface {
	get(k key) (object, bool, error)
	put(o object) error
	drop(k key) error
	// at returns what has that address, in returns what is held by it.
	at(p place) ([]object, error)
	in(p place) ([]object, error)
	all() ([]object, error)
	// count returns the next number, from 1, that was never returned before.
	count() (int, error)
}

// memory is a shelf that ends with its process.
type memory struct {
	objects   map[key]object
	ats, ins  map[place]map[key]bool
	lastCount int
}

func newMemory() *memory {
	return &memory{objects: map[key]object{}, ats: map[place]map[key]bool{}, ins: map[place]map[key]bool{}}
}

func (m *memory) get(k key) (object, bool, error) {
	o, found := m.objects[k]
	return o, found, nil
}

func (m *memory) put(o object) error {
	k := o.key()
	if err := m.drop(k); err != nil { // its holder may be another one
		return err
	}
	m.objects[k] = o
	for _, index := range []map[key]bool{enter(m.ats, o.place()), enter(m.ins, o.holder())} {
		index[k] = true
	}
	return nil
}

func enter(index map[place]map[key]bool, p place) map[key]bool {
	if index[p] == nil {
		index[p] = map[key]bool{}
	}
	return index[p]
}

func (m *memory) drop(k key) error {
	if o, found := m.objects[k]; found {
		delete(m.objects, k)
		delete(m.ats[o.place()], k)
		delete(m.ins[o.holder()], k)
	}
	return nil
}

func (m *memory) at(p place) ([]object, error) { return m.those(m.ats[p]), nil }
func (m *memory) in(p place) ([]object, error) { return m.those(m.ins[p]), nil }
func (m *memory) all() ([]object, error)       { return slices.Collect(maps.Values(m.objects)), nil }
func (m *memory) count() (int, error)          { m.lastCount++; return m.lastCount, nil }

func (m *memory) those(keys map[key]bool) []object {
	var out []object
	for k := range keys {
		out = append(out, m.objects[k])
	}
	return out
}

// folder is a shelf whose objects are the files of a directory: it outlives the
// process. Keys hold slashes and brackets; in hex every one is a file name.
type folder string

const ext = ".json"

func (f folder) path(k key) string {
	name := strings.Join([]string{k.lab, k.addr.String(), k.uuid, k.piece}, "|")
	return filepath.Join(string(f), hex.EncodeToString([]byte(name))+ext)
}

func (f folder) get(k key) (object, bool, error) {
	o, err := readObject(f.path(k))
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, false, nil
	}
	return o, err == nil, err
}

func readObject(path string) (object, error) {
	var o object
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

func (f folder) put(o object) error {
	var err error
	if o.Attrs, err = o.text(); err != nil {
		return err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return replace(f.path(o.key()), b)
}

// replace renames, so that a process that dies here leaves no half file.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (f folder) drop(k key) error {
	if err := os.Remove(f.path(k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f folder) all() ([]object, error) {
	files, err := filepath.Glob(filepath.Join(string(f), "*"+ext))
	if err != nil {
		return nil, err
	}
	var out []object
	for _, path := range files {
		o, err := readObject(path)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func (f folder) at(p place) ([]object, error) {
	all, err := f.all()
	return slices.DeleteFunc(all, func(o object) bool { return o.place() != p }), err
}

func (f folder) in(p place) ([]object, error) {
	all, err := f.all()
	return slices.DeleteFunc(all, func(o object) bool { return o.holder() != p }), err
}

func (f folder) count() (int, error) {
	path := filepath.Join(string(f), "count")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	n, _ := strconv.Atoi(string(b)) // 0 when there is none yet
	return n + 1, replace(path, []byte(strconv.Itoa(n+1)))
}
