package operation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/state"
)

// renderOutputs shows all outputs, sensitive ones masked unless the reader is
// a program that asked for JSON.
func renderOutputs(outs map[string]state.Output, reveal bool) (string, json.RawMessage, error) {
	var b strings.Builder
	data := map[string]map[string]any{}
	for _, name := range sortedKeys(outs) {
		o := outs[name]
		shown := "(sensitive)"
		if !o.Sensitive {
			v, err := o.Cty()
			if err != nil {
				return "", nil, fmt.Errorf("output %s: %w", name, err)
			}
			shown = lang.Literal(v)
		}
		fmt.Fprintf(&b, "%s = %s\n", name, shown)
		entry := map[string]any{"sensitive": o.Sensitive, "type": o.Type}
		if !o.Sensitive || reveal {
			entry["value"] = o.Value
		}
		data[name] = entry
	}
	raw, err := json.Marshal(data)
	return strings.TrimRight(b.String(), "\n"), raw, err
}

func renderOutput(o state.Output, opts OutputOptions) (string, error) {
	if opts.JSON {
		return string(o.Value), nil
	}
	v, err := o.Cty()
	if err != nil {
		return "", err
	}
	if !opts.Raw {
		return lang.Literal(v), nil
	}
	switch v.Type() {
	case cty.String:
		return v.AsString(), nil
	case cty.Number, cty.Bool:
		return lang.Literal(v), nil
	}
	return "", diag.Fail(nil, "Not a single value", "Leave --raw away, or use --json.",
		"output %s is a %s", opts.Name, v.Type().FriendlyName())
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
