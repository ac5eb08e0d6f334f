package lang

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Literal shows a whole value in the language's own notation, on several lines
// where it is an object or a map. What is sensitive or not known yet is said to
// be so.
func Literal(v cty.Value) string {
	return string(hclwrite.Format(literal(v).Bytes()))
}

func literal(v cty.Value) hclwrite.Tokens {
	switch {
	case v.HasMark(sensitive):
		return remark("(sensitive)")
	case !v.IsKnown():
		return remark("(known after the runs)")
	case v.IsNull(), v.Type().IsPrimitiveType():
		return hclwrite.TokensForValue(v)
	case v.Type().IsMapType(), v.Type().IsObjectType():
		var attrs []hclwrite.ObjectAttrTokens
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			name := hclwrite.TokensForValue(k)
			if hclsyntax.ValidIdentifier(k.AsString()) {
				name = hclwrite.TokensForIdentifier(k.AsString())
			}
			attrs = append(attrs, hclwrite.ObjectAttrTokens{Name: name, Value: literal(e)})
		}
		return hclwrite.TokensForObject(attrs)
	case v.CanIterateElements():
		var elems []hclwrite.Tokens
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			elems = append(elems, literal(e))
		}
		return hclwrite.TokensForTuple(elems)
	}
	return remark("(" + v.Type().FriendlyName() + ")")
}

func remark(text string) hclwrite.Tokens {
	return hclwrite.Tokens{{Type: hclsyntax.TokenIdent, Bytes: []byte(text)}}
}
