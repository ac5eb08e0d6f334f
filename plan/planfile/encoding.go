package planfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider"
)

// document is the file's layout. The format comes first: it tells a plan from
// everything else, and from the plans of other versions before the rest is read.
type document struct {
	Format   int               `json:"lvslab_plan"`
	Lvslab   string            `json:"lvslab"`
	Made     time.Time         `json:"made"`
	Lab      string            `json:"lab"`
	Lineage  string            `json:"lineage"`
	Serial   uint64            `json:"serial"`
	Topology string            `json:"topology"`
	Changes  []change          `json:"changes"`
	Warnings diag.Diagnostics  `json:"warnings,omitempty"`
	Trials   json.RawMessage   `json:"trials,omitempty"`
	Images   map[string]string `json:"images,omitempty"`
	Teardown string            `json:"teardown,omitempty"`
	Inputs   json.RawMessage   `json:"inputs,omitempty"`
}

type change struct {
	Addr    addr.Resource     `json:"address"`
	Type    string            `json:"type"`
	Noun    string            `json:"noun"`
	Action  provider.Action   `json:"action"`
	Reasons []provider.Reason `json:"reasons,omitempty"`
	Want    *wanted           `json:"want,omitempty"`
	Have    *existing         `json:"have,omitempty"`
}

type wanted struct {
	Attrs      typed           `json:"attributes"`
	DependsOn  []addr.Resource `json:"depends_on,omitempty"`
	NotAwaited []addr.Resource `json:"not_awaited,omitempty"`
	Within     addr.Resource   `json:"within,omitzero"`
	ReplacedBy []addr.Resource `json:"replaced_by,omitempty"`
	Range      *diag.Range     `json:"range,omitempty"`
}

type existing struct {
	Type      string          `json:"type"`
	Tainted   bool            `json:"tainted,omitempty"`
	Attrs     typed           `json:"attributes"`
	Half      *typed          `json:"half_updated,omitempty"`
	DependsOn []addr.Resource `json:"depends_on,omitempty"`
	Within    addr.Resource   `json:"within,omitzero"`
}

// typed is a value with its type, so that a plan is read without the schemas.
type typed struct{ value cty.Value }

type typedJSON struct {
	Type  json.RawMessage `json:"type"`
	Value json.RawMessage `json:"value"`
}

// MarshalJSON writes type and value.
func (t typed) MarshalJSON() ([]byte, error) {
	var out typedJSON
	var err error
	if out.Type, err = ctyjson.MarshalType(t.value.Type()); err != nil {
		return nil, err
	}
	if out.Value, err = ctyjson.Marshal(t.value, t.value.Type()); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads type and value.
func (t *typed) UnmarshalJSON(b []byte) error {
	var in typedJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	typ, err := ctyjson.UnmarshalType(in.Type)
	if err != nil {
		return err
	}
	if t.value, err = ctyjson.Unmarshal(in.Value, typ); err != nil {
		return err
	}
	return cty.Walk(t.value, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.Number && !v.IsNull() {
			if e := v.AsBigFloat().MantExp(nil); e > maxExponent || e < -maxExponent {
				return false, errors.New("a number is out of all bounds")
			}
		}
		return true, nil
	})
}

// maxExponent bounds numbers to what any attribute needs. 1e999999999 is read
// in no time and would be written as a gigabyte of digits.
const maxExponent = 128

func encode(f File) ([]byte, error) {
	d := document{
		Format: Format, Lvslab: f.Lvslab, Made: f.Made.UTC(), Lab: f.Lab, Lineage: f.Lineage, Serial: f.Serial, Topology: f.Topology,
		Warnings: f.Plan.Warnings, Trials: f.Trials, Images: f.Images, Teardown: f.Teardown, Inputs: f.Inputs,
	}
	for _, c := range f.Plan.Changes {
		out := change{Addr: c.Addr, Type: c.Type, Noun: c.Noun, Action: c.Action, Reasons: c.Reasons}
		if w := c.Want; w != nil {
			out.Want = &wanted{typed{w.Attrs}, w.DependsOn, w.NotAwaited, w.Within, w.ReplacedBy, w.Range}
		}
		if h := c.Have; h != nil {
			out.Have = &existing{h.Type, h.Tainted, typed{h.Value}, nil, h.DependsOn, h.Within}
			if h.Half != cty.NilVal {
				out.Have.Half = &typed{h.Half}
			}
		}
		d.Changes = append(d.Changes, out)
	}
	b, err := json.Marshal(d)
	return append(b, '\n'), err
}

func decode(b []byte) (File, error) {
	var head struct {
		Format *int   `json:"lvslab_plan"`
		Lvslab string `json:"lvslab"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrNoPlan, err)
	}
	switch {
	case head.Format == nil:
		return File{}, fmt.Errorf("%w: it has no lvslab_plan", ErrNoPlan)
	case *head.Format != Format:
		return File{}, fmt.Errorf("%w: format %d of lvslab %s", ErrVersion, *head.Format, head.Lvslab)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrNoPlan, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("%w: there is text behind it", ErrNoPlan)
	}
	f := File{
		Lvslab: d.Lvslab, Made: d.Made, Lab: d.Lab, Lineage: d.Lineage, Serial: d.Serial, Topology: d.Topology,
		Plan: plan.Plan{Warnings: d.Warnings}, Trials: d.Trials, Images: d.Images, Teardown: d.Teardown, Inputs: d.Inputs,
	}
	for _, c := range d.Changes {
		out, err := c.change()
		if err != nil {
			return File{}, fmt.Errorf("%w: %s: %w", ErrNoPlan, c.Addr, err)
		}
		f.Plan.Changes = append(f.Plan.Changes, out)
	}
	return f, nil
}

// change converts one change and checks that its action has what it needs:
// walk relies on it.
func (c change) change() (plan.Change, error) {
	out := plan.Change{Addr: c.Addr, Type: c.Type, Noun: c.Noun, Action: c.Action, Reasons: c.Reasons}
	if w := c.Want; w != nil {
		if err := object(w.Attrs.value); err != nil {
			return out, err
		}
		out.Want = &provider.Resource{Addr: c.Addr, Type: c.Type, Attrs: w.Attrs.value, DependsOn: w.DependsOn, NotAwaited: w.NotAwaited, Within: w.Within, ReplacedBy: w.ReplacedBy, Range: w.Range}
	}
	if h := c.Have; h != nil {
		if err := object(h.Attrs.value); err != nil {
			return out, err
		}
		out.Have = &plan.Existing{Addr: c.Addr, Type: h.Type, Tainted: h.Tainted, Value: h.Attrs.value, DependsOn: h.DependsOn, Within: h.Within}
		if h.Half != nil {
			if err := object(h.Half.value); err != nil {
				return out, err
			}
			out.Have.Half = h.Half.value
		}
	}
	needs, ok := map[provider.Action][2]bool{
		provider.NoOp: {true, true}, provider.Create: {true, false}, provider.Update: {true, true},
		provider.Replace: {true, true}, provider.Delete: {false, true},
	}[c.Action]
	if !ok || needs != [2]bool{c.Want != nil, c.Have != nil} || c.Addr.IsZero() {
		return out, fmt.Errorf("the action %q does not fit what is wanted and what exists", c.Action)
	}
	return out, nil
}

func object(v cty.Value) error {
	if v == cty.NilVal || v.IsNull() || !v.Type().IsObjectType() || !v.IsWhollyKnown() {
		return errors.New("its attributes are no object")
	}
	return nil
}
