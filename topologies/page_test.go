package topologies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/picture"
	"github.com/lvslab/lvslab/internal/predict"
	"github.com/lvslab/lvslab/topologies"
)

const (
	pageFile = "../docs/topologies.md"
	pictures = "../docs/pictures"
)

const pageHead = `# The builtin topologies

<!-- Written by the tests from topologies/*.hcl: go test ./topologies -update -->

` + "`lvslab init NAME` writes one to a file to begin from, `lvslab apply builtin:NAME` runs it" + `
as it is. The pictures are what ` + "`lvslab graph --svg`" + ` draws: networks are lines (a dot
joins, a crossing does not), arrows lead from a director to its backends. Runs are those
of the defaults; most have a variable for more blocks. The check ` + "`nothing_lost`" + ` is that
every query was answered.

| topology | is about | machines | runs |
| --- | --- | ---: | ---: |
`

// TestPage: docs/topologies.md and its pictures are what the topologies say now.
func TestPage(t *testing.T) {
	list, sections := "", ""
	for _, name := range topologies.Names() {
		source, _ := topologies.Get(name)
		tp, _ := resolve(t, builtin(t, name))
		runs, ofEach := runsOf(t, tp)
		machines := picture.Machines(tp)
		about := strings.ReplaceAll(tp.Lab.Description, "|", `\|`)
		list += fmt.Sprintf("| [%s](#%s) | %s | %d | %d |\n", name, name, about, len(tp.Machines), runs)
		sections += fmt.Sprintf("\n## %s\n\n![The network of %s: %s](pictures/%s.svg)\n\n%s\n\n", name, name, machines, name, said(t, name, string(source)))
		sections += fmt.Sprintf("%d machines: %s. %d runs: %s. Checks:\n\n%s", len(tp.Machines), machines, runs, ofEach, checksOf(t, name, source))
		golden.File(t, filepath.Join(pictures, name+".svg"), picture.SVG(tp))
	}
	golden.File(t, pageFile, pageHead+list+sections)
	files, err := os.ReadDir(pictures)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".svg"); !slices.Contains(topologies.Names(), name) {
			t.Errorf("%s/%s is the picture of no topology: delete it", pictures, f.Name())
		}
	}
}

// said is what a topology's comment at its top says it is there for: without what is
// drawn there, which the picture shows, and without what concerns the linter.
func said(t *testing.T, name, source string) string {
	t.Helper()
	var comment []string
	for _, line := range strings.Split(source, "\n") {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		comment = append(comment, strings.TrimPrefix(text, " "))
	}
	var out []string
	for _, p := range strings.Split(strings.Join(comment, "\n"), "\n\n") {
		if !strings.HasPrefix(p, "Advice that stays: ") && !strings.HasPrefix(p, " ") {
			out = append(out, p)
		}
	}
	text := strings.Join(out, "\n\n")
	if strings.Count(text+" ", ". ")+strings.Count(text, ".\n") < 2 {
		t.Errorf("%s: its comment should say in some sentences what it shows, has %q", name, text)
	}
	return text
}

// runsOf counts the runs as a plan does, in all and by experiment.
func runsOf(t *testing.T, tp *lang.Topology) (int, string) {
	t.Helper()
	const packets = 2_000_000 // a plan's, so that the same treatments are found to be one
	sum, list := 0, []string{}
	for _, e := range tp.Experiments {
		treatments, ds := experiment.Treatments(tp, e)
		if ds.HasErrors() {
			t.Fatal(ds)
		}
		if e.Collapse {
			list, err := predict.Collapse(tp, e, treatments, packets)
			if err != nil {
				t.Fatal(err)
			}
			e.StandsFor = list
			if treatments, ds = experiment.Treatments(tp, e); ds.HasErrors() {
				t.Fatal(ds)
			}
		}
		n := len(experiment.Trials(e, treatments, sum))
		sum += n
		list = append(list, fmt.Sprintf("%d of `%s`", n, e.Noun.Name()))
	}
	return sum, strings.Join(list, ", ")
}

// checksOf lists the checks of a source with what is said when they do not hold.
func checksOf(t *testing.T, name string, source []byte) string {
	t.Helper()
	f, diags := hclsyntax.ParseConfig(source, name, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	out := ""
	for _, b := range f.Body.(*hclsyntax.Body).Blocks {
		if b.Type != "check" {
			continue
		}
		out += fmt.Sprintf("- `%s`", b.Labels[0])
		for _, a := range b.Body.Blocks {
			if m := a.Body.Attributes["error_message"]; m != nil && b.Labels[0] != "nothing_lost" {
				out += ": " + strings.Trim(string(m.Expr.Range().SliceBytes(source)), `"`)
			}
		}
		out += "\n"
	}
	if out == "" {
		t.Errorf("%s checks nothing", name)
	}
	return out
}
