package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider"
)

// What the state holds of sensitive variables is what the guests were told, and
// stands there as it is. So that it is not shown, the state also knows which of
// its texts hold something sensitive, by salted sums: they survive moves, and say
// nothing to who has only what was shown.

// maskedText stands where something sensitive is not shown.
const maskedText = "(sensitive)"

func hiddenSum(lineage, text string) string {
	sum := sha256.Sum256([]byte(lineage + "\x00" + text))
	return hex.EncodeToString(sum[:16])
}

// hidden returns the sums of what is sensitive among the wanted, and of what the
// state holds and knew to be so before.
func (a *applying) hidden(st state.State) ([]string, error) {
	sums := map[string]bool{}
	for _, r := range a.wanted {
		for text := range textsOf(r) {
			if lang.HoldsSecret(a.study.skeleton, text) {
				sums[hiddenSum(st.Lineage, text)] = true
			}
		}
	}
	if len(st.Hidden) > 0 {
		for _, r := range st.Resources {
			_, err := masked(r.Attrs, func(text string) bool {
				if sum := hiddenSum(st.Lineage, text); slices.Contains(st.Hidden, sum) {
					sums[sum] = true
				}
				return false
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Addr, err)
			}
		}
	}
	return slices.Sorted(maps.Keys(sums)), nil
}

// textsOf returns the texts among a resource's attributes.
func textsOf(r provider.Resource) map[string]bool {
	out := map[string]bool{}
	_ = cty.Walk(r.Attrs, func(_ cty.Path, v cty.Value) (bool, error) { // the callback returns no error
		if v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
			out[v.AsString()] = true
		}
		return true, nil
	})
	return out
}

// noteHidden writes down what of the wanted is sensitive.
func (a *applying) noteHidden() error {
	return a.store.Update(func(s *state.State) (err error) {
		s.Hidden, err = a.hidden(*s)
		return err
	})
}

// maskedState is a state as it is shown.
func maskedState(st state.State) (state.State, error) {
	hide := func(text string) bool { return slices.Contains(st.Hidden, hiddenSum(st.Lineage, text)) }
	st.Resources = slices.Clone(st.Resources)
	for i := range st.Resources {
		r := &st.Resources[i]
		for _, attrs := range []*json.RawMessage{&r.Attrs, &r.Half} {
			var err error
			if *attrs, err = masked(*attrs, hide); err != nil {
				return st, fmt.Errorf("%s: %w", r.Addr, err)
			}
		}
	}
	st.Outputs = maps.Clone(st.Outputs)
	for name, o := range st.Outputs {
		if o.Sensitive {
			o.Value = nil
			st.Outputs[name] = o
		}
	}
	return st, nil
}

// masked replaces the texts within some JSON that are to be hidden.
func masked(raw json.RawMessage, hide func(string) bool) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	changed := false
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if hide(v) {
				changed = true
				return maskedText
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	if v = walk(v); !changed {
		return raw, nil
	}
	return json.Marshal(v)
}
