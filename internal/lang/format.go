package lang

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/lvslab/lvslab/internal/diag"
)

// Format lays a file out in the canonical style, as fmt does. A file with
// syntax errors is returned as it is, with the errors.
func Format(src []byte, filename string) ([]byte, diag.Diagnostics) {
	if len(src) > maxFileBytes {
		return src, diag.Diagnostics{tooLarge(filename, len(src))}
	}
	if d, bad := tooDeep(src, filename); bad {
		return src, diag.Diagnostics{d}
	}
	if _, ds := hclsyntax.ParseConfig(src, filename, hcl.InitialPos); ds.HasErrors() {
		return src, syntaxProblems(ds)
	}
	return hclwrite.Format(src), nil
}
