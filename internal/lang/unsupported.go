package lang

import (
	"fmt"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// Unsupported lists what the language has and this version cannot carry out
// yet, so that nothing is silently ignored. What becomes real leaves the list.
func Unsupported(t *Topology) diag.Diagnostics {
	var out diag.Diagnostics
	told := map[string]bool{} // the instances of a block share their arguments
	say := func(n addr.Noun, arg string, block diag.Range, what, remedy string) {
		key := fmt.Sprint(n.Block(), t.Place(n, arg, block), what)
		if told[key] {
			return
		}
		told[key] = true
		out = append(out, diag.Errorf("Not in this version", remedy, "%s: %s cannot be carried out yet.", n, what).
			At(t.Place(n, arg, block)).For(n.String()))
	}
	for _, i := range t.Images {
		if i.OwnKernel() {
			say(i.Noun, "kernel", i.Range, "a kernel of your own", "Name a Debian package with a kernel.")
		}
	}
	out.Sort()
	return out
}
