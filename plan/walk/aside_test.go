package walk_test

import (
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/provider/fake"
)

func TestWhatIsAsideComesLast(t *testing.T) {
	labels := func(l ...string) func(plan.Change) bool {
		in := map[addr.Resource]bool{}
		for _, label := range l {
			in[at("backend."+label+"/box")] = true
		}
		return func(c plan.Change) bool { return in[c.Addr] }
	}
	for _, tt := range []struct {
		name  string
		aside func(plan.Change) bool
		fails string
		want  string
	}{
		{"nothing", nil, "", "create b, create a, create c"},
		{"one", labels("a"), "", "create b, create c, create a"},
		{"one that another one needs", labels("b"), "", "create b, create a, create c"},
		{"all", labels("a", "b", "c"), "", "create b, create a, create c"},
		{"the others fail", labels("a"), "b", "create b, create a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, t.TempDir())
			b.opt.Parallelism, b.opt.Aside = 1, tt.aside
			if tt.fails != "" {
				b.fake.Script(fake.Rule{Op: fake.Create, Addr: at("backend." + tt.fails + "/box"), Fault: fake.Fail, Nth: 1})
			}
			if err := b.apply(box("a"), box("b"), box("c", needs("b"))).Err(); (err != nil) != (tt.fails != "") {
				t.Fatal(err)
			}
			if got := b.log(0); got != tt.want {
				t.Errorf("calls %q, not %q", got, tt.want)
			}
		})
	}
}
