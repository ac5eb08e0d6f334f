package house

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lvslab/lvslab/"

// allowed says which of our rooms each room may enter. A room that is missing
// here fails the test: adding a room is a decision, not an accident.
var allowed = map[string][]string{
	"internal/addr":    {},
	"internal/version": {},
	"internal/diag":    {},
	"internal/house":   {},

	"internal/lang":    {"internal/addr", "internal/diag"},
	"internal/topo":    {"internal/addr", "internal/diag", "internal/lang"},
	"internal/picture": {"internal/addr", "internal/lang"},
	"topologies":       {},
	"provider":         {"internal/addr", "internal/diag"},
	"provider/schema":  {"provider", "internal/addr", "internal/diag", "internal/agent/proto"},
	"internal/lower":   {"internal/addr", "internal/diag", "internal/lang", "internal/topo", "provider", "provider/schema"},

	"plan":          {"internal/addr", "internal/diag", "provider"},
	"plan/graph":    {"internal/addr", "internal/diag"},
	"plan/diff":     {"internal/addr", "internal/diag", "provider", "plan", "plan/graph", "plan/state"},
	"plan/walk":     {"internal/addr", "internal/diag", "provider", "plan", "plan/graph", "plan/state"},
	"plan/state":    {"internal/addr", "internal/diag", "provider", "plan"},
	"plan/planfile": {"internal/addr", "internal/diag", "provider", "plan", "plan/state"},
	"plan/labtest":  {"internal/addr", "internal/lang", "internal/topo", "internal/lower", "provider", "provider/fake", "provider/schema", "topologies"},
	"plan/lab":      {"internal/artifact", "internal/diag", "internal/hypervisor", "internal/operation", "internal/ui"},

	"examples/go-test": {},

	"provider/fake":    {"internal/addr", "internal/diag", "provider"},
	"provider/libvirt": {"internal/addr", "internal/diag", "internal/agent/proto", "provider", "provider/schema"},
	"provider/guest":   {"internal/addr", "internal/diag", "internal/agent/proto", "internal/agent/client", "provider", "provider/schema"},

	"internal/hypervisor":    {"internal/diag"},
	"internal/remote":        {"internal/diag"},
	"images":                 {"internal/diag", "internal/qcow2"},
	"internal/qcow2":         {},
	"internal/agent/proto":   {},
	"internal/agent/binary":  {"internal/diag"},
	"internal/agent/client":  {"internal/diag", "internal/agent/proto"},
	"internal/agent/server":  {"internal/agent/dnsload", "internal/agent/proto", "internal/conformance", "internal/ipvs", "internal/load", "internal/version"},
	"internal/agent/dnsload": {"internal/agent/proto", "internal/load"},
	"internal/ipvs":          {"internal/agent/proto"},
	"internal/guesttest":     {"images", "internal/vmtest"},
	"internal/golden":        {},
	"internal/vmtest":        {},

	"internal/remote/remotetest": {},

	"internal/agent/server/boot": {"internal/agent/server"},
	"internal/agent/agenttest":   {"images", "internal/agent/binary", "internal/agent/client", "internal/agent/proto"},
	"internal/ipvsmodel":         {"internal/stats"},
	"internal/conformance":       {"internal/agent/proto", "internal/ipvs", "internal/ipvsmodel"},
	"internal/machine":           {"images", "internal/diag", "internal/hypervisor", "internal/agent/client", "internal/agent/proto"},

	"internal/sighting":         {"internal/addr", "internal/artifact", "internal/diag"},
	"internal/symptom":          {"internal/addr", "internal/diag", "internal/agent/proto"},
	"internal/load":             {"internal/addr", "internal/diag", "internal/lang"},
	"internal/replay":           {"internal/artifact", "internal/agent/proto", "internal/ipvsmodel", "internal/load"},
	"internal/experiment":       {"internal/replay", "internal/sighting", "internal/symptom", "internal/addr", "internal/diag", "internal/lang", "internal/topo", "internal/load", "internal/artifact", "internal/stats", "internal/agent/proto", "internal/agent/client"},
	"internal/merge":            {"internal/artifact", "internal/diag", "internal/sighting"},
	"internal/compare":          {"internal/artifact", "internal/report", "internal/stats", "internal/verdict"},
	"internal/reproduce":        {"internal/artifact", "internal/stats", "internal/verdict"},
	"internal/predict":          {"internal/replay", "internal/addr", "internal/lang", "internal/agent/proto", "internal/experiment", "internal/ipvsmodel", "internal/stats", "internal/verdict"},
	"internal/population":       {"internal/replay", "internal/addr", "internal/lang", "internal/agent/proto", "internal/experiment", "internal/ipvsmodel"},
	"internal/advise":           {"internal/addr", "internal/diag", "internal/lang", "internal/experiment", "internal/stats"},
	"internal/verify":           {"internal/replay", "internal/sighting", "internal/artifact", "internal/diag", "internal/agent/proto", "internal/load", "internal/report", "internal/stats", "internal/verdict", "internal/version"},
	"internal/verify/studytest": {"internal/artifact", "internal/report", "internal/verdict", "internal/version"},
	"internal/artifact":         {"internal/addr", "internal/diag"},
	"internal/stats":            {},
	"internal/verdict":          {"internal/addr", "internal/artifact", "internal/stats"},
	"internal/report":           {"internal/sighting", "internal/addr", "internal/diag", "internal/artifact", "internal/stats", "internal/verdict"},
}

// free rooms may enter every other: the corridor, the front door, what is shown.
var free = []string{"internal/operation", "internal/acceptance", "internal/ui", "cmd/lvslab", "cmd/lvslab-agent"}

// pure rooms have no business with the host: same input, same output.
var pure = []string{"internal/lang", "internal/topo", "internal/lower", "plan/diff", "plan/graph", "internal/stats", "internal/advise", "internal/verdict", "internal/ipvsmodel", "internal/predict", "internal/population", "internal/replay", "internal/picture", "internal/sighting"}

var impure = []string{"net", "os/exec", "os/signal", "golang.org/x/sys/unix", "github.com/vishvananda/netlink", "github.com/digitalocean/go-libvirt"}

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages: the rules would check nothing", len(all))
	}
	return all
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImportRules(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if slices.Contains(free, name) || len(p.GoFiles) == 0 {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("%s: no rule says whom this package may import", name)
			continue
		}
		for _, imp := range p.Imports {
			short, ours := strings.CutPrefix(imp, module)
			if ours && !slices.Contains(may, short) {
				t.Errorf("%s must not import %s", name, short)
			}
			if slices.Contains(pure, name) && slices.Contains(impure, imp) {
				t.Errorf("%s is pure and must not import %s", name, imp)
			}
		}
	}
}

// public are the packages that other modules may use: what they export must be
// sayable without our internal packages, which others cannot import.
var public = []string{"plan/lab"}

func TestPublicSignatures(t *testing.T) {
	for _, name := range public {
		dir := filepath.Join(root(t), name)
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", name, len(names), err)
		}
		for _, path := range names {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, leak := range leaks(file) {
				t.Errorf("%s: %s", path, leak)
			}
		}
	}
}

func TestLeaks(t *testing.T) {
	const text = `package p
import ("example.org/x/internal/a"; b "example.org/x/internal/c"; "time")
type Open struct { F a.T; g a.T; *b.E }
type Fun func(map[string][]*b.T) time.Time
type shut struct { F a.T }
func Do(x a.T) (y b.T) { var z a.T; _ = z; return }
func (shut) Do(x a.T) {}
func (*Open) Do(x a.T) { }
func do(x a.T) {}
var V a.T
var v a.T
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := "Open has a.T, Open has b.E, Fun has b.T, Do has a.T, Do has b.T, Do has a.T, V has a.T"
	if got := strings.Join(leaks(file), ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// leaks lists the internal types in what a file exports: signatures, fields,
// variables. What an unexported type has is no one's who cannot name it.
func leaks(file *ast.File) []string {
	inside := map[string]bool{} // names of the internal packages here
	for _, imp := range file.Imports {
		if path := strings.Trim(imp.Path.Value, `"`); strings.Contains(path, "/internal/") {
			name := path[strings.LastIndex(path, "/")+1:]
			if imp.Name != nil {
				name = imp.Name.Name
			}
			inside[name] = true
		}
	}
	var out []string
	find := func(who string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				return len(n.Names) == 0 || slices.ContainsFunc(n.Names, (*ast.Ident).IsExported)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && inside[x.Name] {
					out = append(out, who+" has "+x.Name+"."+n.Sel.Name)
				}
			}
			return true
		})
	}
	types := func(who string, fields *ast.FieldList) {
		if fields != nil {
			for _, f := range fields.List {
				find(who, f.Type)
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d)) {
				types(d.Name.Name, d.Type.Params)
				types(d.Name.Name, d.Type.Results)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						find(s.Name.Name, s.Type)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Type != nil {
						find(s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
	return out
}

func exportedReceiver(d *ast.FuncDecl) bool {
	recv := d.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	id, ok := recv.(*ast.Ident)
	return ok && id.IsExported()
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		found := false
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			found = found || file.Doc != nil && (strings.HasPrefix(file.Doc.Text(), "Package ") || strings.HasPrefix(file.Doc.Text(), "Command "))
		}
		if !found && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range undocumented(file) {
				t.Errorf("%s/%s: exported %s has no comment", strings.TrimPrefix(p.ImportPath, module), f, name)
			}
		}
	}
}

// undocumented lists the exported top-level names without a comment of their
// own or of their group. Methods of unexported types and methods that satisfy
// error and Stringer speak for themselves.
func undocumented(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && !obvious(d) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			if d.Doc != nil {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && s.Doc == nil {
						names = append(names, s.Name.Name)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil {
						names = append(names, s.Names[0].Name)
					}
				}
			}
		}
	}
	return names
}

func obvious(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	recv := d.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if id, ok := recv.(*ast.Ident); ok && !id.IsExported() {
		return true
	}
	return slices.Contains([]string{"Error", "String", "Unwrap", "Len", "Less", "Swap", "Set", "Type"}, d.Name.Name)
}

var bannedNames = regexp.MustCompile(`(?i)(manager|helper|util)`)

func TestNoVagueNames(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range append(slices.Clone(p.GoFiles), filepath.Base(p.Dir)) {
			if bannedNames.MatchString(f) {
				t.Errorf("%s/%s: say what it is, not that it helps", p.ImportPath, f)
			}
		}
	}
}

// TestNothingOfThisMachine keeps paths and registry hosts of a developer's
// machine out of what is published.
func TestNothingOfThisMachine(t *testing.T) {
	banned := regexp.MustCompile(`/(work|farm|root/go)/|proxy\.golang\.org|deb\.debian\.org`)
	out, err := exec.Command("git", "-C", root(t), "ls-files").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for _, f := range strings.Fields(string(out)) {
		if strings.HasPrefix(f, "internal/house/") || f == "LICENSE" || f == "go.sum" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root(t), f))
		if err != nil {
			continue // deleted in the working tree
		}
		if m := banned.Find(b); m != nil {
			t.Errorf("%s holds %q", f, m)
		}
	}
}
