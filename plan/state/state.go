// Package state remembers what lvslab made: the state file, the journal of
// intents beside it, and the lock that lets one process at a time change them.
//
// A lab's directory is .lvslab/<lab>/ and holds
//
//	state.json     the state, always whole: replaced by rename, never written in place
//	journal.jsonl  what is about to be done, written and synced before it is done
//	keys.json      private keys, mode 0600
//	lock           locked by flock while a process works on the lab
//	holder.json    who holds the lock, for the message only
//	backups/       the state as the last operations found it
//
// The order of one effect is: intent synced → call → state synced → journal
// closed. A process that is killed anywhere in between leaves an intent that
// the next one finds and resolves by looking.
package state

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// Version is the format that this lvslab writes. It reads this one and, by
// upgrading them in memory, older ones.
const Version = 2

// State is everything that is remembered between two calls of lvslab. It
// survives the teardown of the lab: lineage, serial and outputs stay.
type State struct {
	Version int    `json:"version"`
	Lvslab  string `json:"lvslab"` // version of the lvslab that wrote it
	// Lineage is the lab's random identity, 32 hex digits. It is on the disk
	// before the first effect; all names on the host derive from it.
	Lineage string `json:"lineage"`
	// Serial grows by one with each change that is written.
	Serial uint64 `json:"serial"`
	Lab    string `json:"lab"`
	// Source is the topology as it was named, for messages.
	Source string `json:"source,omitempty"`
	// Hypervisor is the holder process or whatever else the hypervisor's room
	// needs to find it again; null when none runs for this lab.
	Hypervisor json.RawMessage `json:"hypervisor,omitempty"`
	// Addresses are the assigned IP addresses by their slot. One that is here
	// never moves.
	Addresses map[string]netip.Addr `json:"addresses,omitempty"`
	// Identities are the nouns whose names on the hypervisor derive from another
	// address than theirs: they were moved, or their own was taken.
	Identities map[addr.Noun]addr.Noun `json:"identities,omitempty"`
	// Resources are sorted by address.
	Resources []Resource        `json:"resources"`
	Outputs   map[string]Output `json:"outputs,omitempty"`
	// Hidden are salted sums of the attributes' texts that hold something sensitive:
	// those are not shown. Sorted.
	Hidden []string `json:"hidden,omitempty"`
	// Study is the hash of the study whose result LastArtifact is.
	Study        string `json:"study,omitempty"`
	LastArtifact string `json:"last_artifact,omitempty"`
}

// Status says how much a resource can be trusted.
type Status string

// The statuses. A tainted resource is replaced by the next apply.
const (
	OK      Status = "ok"
	Tainted Status = "tainted"
)

// Resource is one thing that exists, or may exist when it is tainted.
type Resource struct {
	Addr   addr.Resource `json:"address"`
	Type   string        `json:"type"`
	Status Status        `json:"status"`
	// Attrs are the attributes as plain JSON; [Resource.Value] needs the schema.
	Attrs json.RawMessage `json:"attributes"`
	// Half are the attributes that an update was about to give it when it failed
	// or was interrupted: the resource may have some of each. See [plan.Existing].
	Half      json.RawMessage `json:"half_updated,omitempty"`
	DependsOn []addr.Resource `json:"depends_on,omitempty"`
	Within    addr.Resource   `json:"within,omitzero"`
}

// Output is the value of an output block with its type, both in cty's JSON.
type Output struct {
	Value     json.RawMessage `json:"value"`
	Type      json.RawMessage `json:"type"`
	Sensitive bool            `json:"sensitive,omitempty"`
}

// NewOutput encodes a wholly known value.
func NewOutput(v cty.Value, sensitive bool) (Output, error) {
	v, _ = v.UnmarkDeep()
	typ, err := ctyjson.MarshalType(v.Type())
	if err != nil {
		return Output{}, err
	}
	val, err := ctyjson.Marshal(v, v.Type())
	return Output{Value: val, Type: typ, Sensitive: sensitive}, err
}

// Cty decodes the value.
func (o Output) Cty() (cty.Value, error) {
	typ, err := ctyjson.UnmarshalType(o.Type)
	if err != nil {
		return cty.NilVal, err
	}
	return ctyjson.Unmarshal(o.Value, typ)
}

// NewLineage draws a lineage: 128 random bits in hex.
func NewLineage() string {
	var b [16]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// Resource returns the resource of that address.
func (s *State) Resource(a addr.Resource) (Resource, bool) {
	i, found := s.find(a)
	if !found {
		return Resource{}, false
	}
	return s.Resources[i], true
}

// Put adds or replaces a resource.
func (s *State) Put(r Resource) {
	i, found := s.find(r.Addr)
	if found {
		s.Resources[i] = r
		return
	}
	s.Resources = slices.Insert(s.Resources, i, r)
}

// Drop forgets a resource. Forgetting what is not there changes nothing.
func (s *State) Drop(a addr.Resource) {
	if i, found := s.find(a); found {
		s.Resources = slices.Delete(s.Resources, i, i+1)
	}
}

func (s *State) find(a addr.Resource) (int, bool) {
	return slices.BinarySearchFunc(s.Resources, a, func(r Resource, a addr.Resource) int { return r.Addr.Compare(a) })
}

// Existing decodes all resources with the schemas of their types.
func (s *State) Existing(ps *plan.Providers) ([]plan.Existing, error) {
	out, errs := make([]plan.Existing, len(s.Resources)), make([]error, len(s.Resources))
	var wg sync.WaitGroup
	const some = 256 // of a thousand machines' five thousand
	for from := 0; from < len(out); from += some {
		wg.Go(func() {
			for i := from; i < min(from+some, len(out)); i++ {
				out[i], errs[i] = s.Resources[i].existing(ps)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r Resource) existing(ps *plan.Providers) (plan.Existing, error) {
	_, schema, err := ps.For(r.Type)
	if err != nil {
		return plan.Existing{}, fmt.Errorf("%s: %w", r.Addr, err)
	}
	e := plan.Existing{
		Addr: r.Addr, Type: r.Type, Tainted: r.Status == Tainted,
		DependsOn: slices.Clone(r.DependsOn), Within: r.Within,
	}
	if e.Value, err = r.Value(schema); err == nil && len(r.Half) > 0 {
		e.Half, err = decodeAttrs(r.Addr, r.Half, schema)
	}
	return e, err
}

// NewResource makes the record of a resource with these attributes.
func NewResource(r provider.Resource, v cty.Value, status Status) (Resource, error) {
	attrs, err := encodeAttrs(v)
	if err != nil {
		return Resource{}, fmt.Errorf("%s: %w", r.Addr, err)
	}
	return Resource{Addr: r.Addr, Type: r.Type, Status: status, Attrs: attrs, DependsOn: slices.Clone(r.DependsOn), Within: r.Within}, nil
}

// Value decodes the attributes. The schema may have gained attributes since
// they were written (null) or have lost some (left out); an attribute whose
// type has changed is an error.
func (r Resource) Value(s provider.Schema) (cty.Value, error) {
	return decodeAttrs(r.Addr, r.Attrs, s)
}

func decodeAttrs(a addr.Resource, raw json.RawMessage, s provider.Schema) (cty.Value, error) {
	var have map[string]json.RawMessage
	if err := json.Unmarshal(raw, &have); err != nil {
		return cty.NilVal, fmt.Errorf("%s: attributes: %w", a, err)
	}
	attrs := make(map[string]cty.Value, len(s.Attributes))
	for name, attr := range s.Attributes {
		raw, ok := have[name]
		if !ok {
			attrs[name] = cty.NullVal(attr.Type)
			continue
		}
		v, err := decodeAttr(raw, attr.Type)
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s: attribute %s: %w", a, name, err)
		}
		attrs[name] = v
	}
	return cty.ObjectVal(attrs), nil
}

// decodeAttr is ctyjson.Unmarshal; texts, which most attributes are, it does in a
// third of the time.
func decodeAttr(raw json.RawMessage, typ cty.Type) (cty.Value, error) {
	if typ != cty.String || raw[0] != '"' {
		return ctyjson.Unmarshal(raw, typ)
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return cty.StringVal(text), err
}

func encodeAttrs(v cty.Value) (json.RawMessage, error) {
	if v == cty.NilVal || v.IsNull() {
		return json.RawMessage("{}"), nil
	}
	v, _ = v.UnmarkDeep()
	return ctyjson.Marshal(v, v.Type())
}

// encode returns the file's text. Equal states give equal bytes.
func (s *State) encode() ([]byte, error) {
	if s.Resources == nil {
		s.Resources = []Resource{}
	}
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// decode parses a file's text strictly: text behind the object, a file of no
// bytes, a lineage that is none and resources out of order are all errors. It
// returns errNewer for a format that it does not know.
func decode(b []byte) (State, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return State{}, fmt.Errorf("the file is empty")
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil || s.Version != Version {
		if s, err = decodeOther(b); err != nil {
			return State{}, err
		}
	}
	s.compact()
	return s, s.check()
}

// decodeOther parses what is not of this format: what an older lvslab wrote, or a
// newer one, or none.
func decodeOther(b []byte) (State, error) {
	var head struct {
		Version int    `json:"version"`
		Lvslab  string `json:"lvslab"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return State{}, err
	}
	if head.Version > Version {
		return State{}, &newerError{head.Version, head.Lvslab}
	}
	b, err := upgrade(b, head.Version)
	if err != nil {
		return State{}, err
	}
	var s State
	err = json.Unmarshal(b, &s)
	return s, err
}

func (s *State) check() error {
	if s.Version != Version {
		return fmt.Errorf("the format version %d is not %d", s.Version, Version)
	}
	if raw, err := hex.DecodeString(s.Lineage); err != nil || len(raw) != 16 {
		return fmt.Errorf("the lineage %q is not 32 hex digits", s.Lineage)
	}
	for i, r := range s.Resources {
		switch {
		case r.Addr.IsZero() || r.Type == "":
			return fmt.Errorf("resource %d has no address or no type", i)
		case i > 0 && s.Resources[i-1].Addr.Compare(r.Addr) >= 0:
			return fmt.Errorf("resource %s stands twice or out of order", r.Addr)
		case r.Status != OK && r.Status != Tainted:
			return fmt.Errorf("resource %s has the unknown status %q", r.Addr, r.Status)
		}
	}
	return nil
}
