package experiment

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/zclconf/go-cty/cty"
)

var errType = errors.New("another type is wanted")

// known reports whether the value can be read at all.
func known(v cty.Value) bool { return v != cty.NilVal && v.IsWhollyKnown() && !v.IsNull() }

func asString(v cty.Value) (string, error) {
	if !known(v) || v.Type() != cty.String {
		return "", errType
	}
	return v.AsString(), nil
}

func asInt(v cty.Value, least, most int) (int, error) {
	bad := fmt.Errorf("must be a whole number from %d to %d", least, most)
	if !known(v) || v.Type() != cty.Number {
		return 0, bad
	}
	n, accuracy := v.AsBigFloat().Int64()
	if accuracy != big.Exact || n < int64(least) || n > int64(most) {
		return 0, bad
	}
	return int(n), nil
}

func elements(v cty.Value) ([]cty.Value, error) {
	if !known(v) {
		return nil, errType
	}
	t := v.Type()
	if !t.IsListType() && !t.IsTupleType() && !t.IsSetType() {
		return nil, errType
	}
	return v.AsValueSlice(), nil
}

func asInts(v cty.Value, least, most int) ([]int, error) {
	list, err := elements(v)
	if err != nil {
		return nil, err
	}
	out := make([]int, 0, len(list))
	for _, e := range list {
		n, err := asInt(e, least, most)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func asStrings(v cty.Value) ([]string, error) {
	list, err := elements(v)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, err := asString(e)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
