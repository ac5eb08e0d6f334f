package lang_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// FuzzLoader sends any bytes through the whole loader. Nothing may panic, a
// step without errors must yield something, and no address may be used twice.
func FuzzLoader(f *testing.F) {
	for _, pattern := range []string{"testdata/errors/*.hcl", "../../topologies/*.hcl", "../../examples/*/*.hcl"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte(lab))
	f.Add([]byte(withVariables))
	f.Fuzz(func(t *testing.T, b []byte) {
		src := lang.Source{Files: []lang.File{{Name: "fuzz.hcl", Bytes: b}}, Name: "fuzz"}
		if bad := check(src); bad != "" {
			t.Error(bad)
		}
		if out, ds := lang.Format(b, "fuzz.hcl"); !ds.HasErrors() {
			if _, ds = lang.Format(out, "fuzz.hcl"); ds.HasErrors() {
				t.Errorf("formatting broke the file: %v", ds)
			}
		}
	})
}

// check sends a source through all steps and says what is wrong with them, or "".
func check(src lang.Source) string {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	whole := func(step string, have bool, ds diag.Diagnostics) bool {
		for _, d := range ds {
			if d.Summary == "" || d.Severity == diag.Error && d.Remedy == "" {
				say("%s: message without summary or remedy: %s", step, d)
			}
		}
		if have == ds.HasErrors() {
			say("%s: a result: %v, errors: %v", step, have, ds)
		}
		return have
	}
	c, ds := lang.Parse(src)
	if !whole("parse", c != nil, ds) {
		return strings.Join(bad, "; ")
	}
	sk, ds := c.Skeleton(lang.Inputs{})
	if !whole("skeleton", sk != nil, ds) {
		return strings.Join(bad, "; ")
	}
	addresses, ds := topo.Assign(sk, nil)
	if ds.HasErrors() {
		return strings.Join(bad, "; ")
	}
	used := map[netip.Addr]string{}
	for key, ip := range addresses {
		if other, twice := used[ip]; twice {
			say("%s and %s both have %s", key, other, ip)
		}
		used[ip] = key
	}
	tp, ds := c.Resolve(sk, addresses)
	if !whole("resolve", tp != nil, ds) {
		return strings.Join(bad, "; ")
	}
	if ds := lang.Validate(tp); ds.HasErrors() {
		say("Validate finds what Resolve did not: %v", ds)
	}
	if _, err := topo.Lay(tp, "lineage"); err != nil {
		say("lay: %v", err)
	}
	c.Conclude(sk, tp, nil)
	results := &lang.Results{Experiments: map[string]lang.ExperimentResult{}, Paths: map[string][]lang.PathResult{}}
	for _, x := range tp.Experiments {
		results.Experiments[x.Noun.Name()] = lang.ExperimentResult{Runs: 1}
	}
	c.Conclude(sk, tp, results)
	return strings.Join(bad, "; ")
}

// FuzzVarFlag: any text may come from the command line or a variables file.
func FuzzVarFlag(f *testing.F) {
	f.Add("list=[1, 2]")
	f.Add("n=7")
	f.Add("shape={ a = 1 }")
	c, ds := lang.Parse(text("v.hcl", withVariables))
	if ds.HasErrors() {
		f.Fatal(ds.Err())
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ds := lang.ParseVarFlag(s)
		if ds.HasErrors() {
			return
		}
		c.Skeleton(lang.Inputs{Flags: []lang.VarFlag{v}, Files: []lang.VarFile{{File: lang.File{Name: "f", Bytes: []byte(s)}}}})
	})
}

// FuzzModules sends any two texts through the loader as a topology and a module
// that it may call, and that may call itself.
func FuzzModules(f *testing.F) {
	f.Add([]byte(nested), []byte(site))
	f.Add([]byte(strings.Replace(nested, "./front", "./site", 1)), []byte(front))
	f.Add([]byte("module \"a\" {\n  source = \"./site\"\n  count = 3\n}\n"), []byte("module \"b\" {\n  source = \"./probe\"\n  count = 20\n}\n"))
	f.Add([]byte("module \"a\" { source = \"./site\" }\nmoved {\n  from = module.b\n  to = module.a\n}\n"), []byte("module \"a\" { source = \"../site\" }\nvariable \"x\" { default = 1 }\n"))
	f.Fuzz(func(t *testing.T, root, module []byte) {
		src := lang.Source{Files: []lang.File{{Name: "fuzz.hcl", Bytes: root}}, Name: "fuzz", Modules: map[string]lang.Module{}}
		for _, dir := range []string{"site", "site/probe", "front/probe", "probe"} {
			src.Modules[dir] = lang.Module{Files: []lang.File{{Name: dir + "/main.hcl", Bytes: module}}}
		}
		if bad := check(src); bad != "" {
			t.Error(bad)
		}
	})
}
