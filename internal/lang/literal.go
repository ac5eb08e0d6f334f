package lang

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Literal shows a whole value in the language's own notation, on several lines
// where it is an object or a map.
func Literal(v cty.Value) string {
	v, _ = v.UnmarkDeep()
	return string(hclwrite.Format(hclwrite.TokensForValue(v).Bytes()))
}
