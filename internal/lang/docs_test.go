package lang

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
)

// section is what stands under one heading of docs/language.md, the headings
// below it left out.
type section struct {
	heading, text string
}

func languagePage(t *testing.T) []section {
	t.Helper()
	b, err := os.ReadFile("../../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []section
	fenced := false
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if strings.HasPrefix(line, "#") && !fenced {
			out = append(out, section{heading: strings.TrimLeft(line, "# ")})
			continue
		}
		if len(out) > 0 {
			out[len(out)-1].text += line + "\n"
		}
	}
	return out
}

// find returns the section whose heading is that, or names that block.
func find(t *testing.T, page []section, name string) section {
	t.Helper()
	for _, s := range page {
		if s.heading == name || strings.Contains(s.heading, "`"+name+"`") {
			return s
		}
	}
	t.Fatalf("docs/language.md has no section %q", name)
	return section{}
}

// row is one argument as the page tells it.
type row struct{ name, typ, def string }

var argumentRow = regexp.MustCompile("^\\| `([a-z_]+)` \\| (.*?) \\| (.*?) \\| ")

// tables returns the argument tables of a section in their order.
func (s section) tables() [][]row {
	var out [][]row
	for _, line := range strings.Split(s.text, "\n") {
		if strings.HasPrefix(line, "| argument ") {
			out = append(out, nil)
		}
		if m := argumentRow.FindStringSubmatch(line); m != nil && len(out) > 0 {
			out[len(out)-1] = append(out[len(out)-1], row{m[1], m[2], m[3]})
		}
	}
	return out
}

func rowNames(rows []row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.name)
	}
	return sorted(out)
}

// described are the arguments that a block's own table has to tell.
func (s *blockSpec) described() []string {
	shared := []string{"count", "for_each", "depends_on"}
	var out []string
	for _, a := range s.args {
		if !slices.Contains(shared, a.name) {
			out = append(out, a.name)
		}
	}
	return sorted(out)
}

// TestPageTellsTheGrammar compares docs/language.md with the grammar table:
// every block has its section, every argument its row, and no row is about
// something that the grammar does not have.
func TestPageTellsTheGrammar(t *testing.T) {
	page := languagePage(t)
	machines := map[string]bool{}
	for _, s := range rootSpecs {
		sec := find(t, page, s.name)
		tables := sec.tables()
		if addr.Kind(s.name).Machine() {
			for _, name := range s.described() {
				machines[name] = true
			}
		} else if len(s.described()) > 0 {
			if len(tables) == 0 {
				t.Errorf("%s: no table of arguments", s.name)
				continue
			}
			compareTable(t, s, tables[0])
			tables = tables[1:]
		} else if !strings.Contains(sec.heading, "`"+s.name+"`") {
			t.Errorf("%s: no section of its own", s.name)
		}
		for _, n := range s.blocks {
			nestedTable(t, s, n.spec, sec, tables)
		}
	}
	table := find(t, page, "client").tables()[0]
	if got, want := rowNames(table), sortedKeys(machines); !slices.Equal(got, want) {
		t.Errorf("machines: the page tells %v, the grammar has %v", got, want)
	}
	var instances []string
	for _, a := range perInstance {
		instances = append(instances, a.name)
	}
	if got := rowNames(find(t, page, "Count and for_each").tables()[0]); !slices.Equal(got, sorted(instances)) {
		t.Errorf("instances: the page tells %v, the grammar has %v", got, instances)
	}
}

// nestedTable looks for the table of a block inside a block: in its section,
// or for one that several blocks share at the first of them.
func nestedTable(t *testing.T, outer, s *blockSpec, sec section, tables [][]row) {
	t.Helper()
	if !strings.Contains(sec.text, "`"+s.name) {
		t.Errorf("%s: the block %q inside is not mentioned", outer.name, s.name)
	}
	if len(s.described()) == 0 {
		return
	}
	for _, table := range tables {
		if slices.Equal(rowNames(table), s.described()) {
			compareTable(t, s, table)
			return
		}
	}
	t.Errorf("%s: no table has exactly the arguments of %s: %v", outer.name, s.name, s.described())
}

func compareTable(t *testing.T, s *blockSpec, table []row) {
	t.Helper()
	if got := rowNames(table); !slices.Equal(got, s.described()) {
		t.Errorf("%s: the page tells %v, the grammar has %v", s.name, got, s.described())
	}
	for _, r := range table {
		a, _ := s.arg(r.name)
		if (r.def == "required") != a.required {
			t.Errorf("%s: %s has %q in the column of defaults, required is %v", s.name, r.name, r.def, a.required)
		}
		if strings.Contains(r.typ, "handle") != a.handle {
			t.Errorf("%s: %s is %q, a block is expected: %v", s.name, r.name, r.typ, a.handle)
		}
	}
}

// TestPageTellsTheDefaults compares the column of defaults with the constants.
func TestPageTellsTheDefaults(t *testing.T) {
	page := languagePage(t)
	for _, tc := range []struct{ block, arg, want string }{
		{"lab", "teardown", fmt.Sprintf("`%q`", TeardownOnSuccess)},
		{"provider", "uri", fmt.Sprintf("`%q`", defaultURI)},
		{"network", "mtu", fmt.Sprint(defaultMTU)},
		{"client", "memory", fmt.Sprintf("`\"%dMiB\"`", defaultMemory>>20)},
		{"tunnel", "type", fmt.Sprintf("`%q`", defaultTunnel)},
		{"service", "port", fmt.Sprint(defaultPort)},
		{"service", "protocol", fmt.Sprintf("`%q`", defaultProtocol)},
		{"service", "scheduler", fmt.Sprintf("`%q`", defaultScheduler)},
		{"service", "forward", fmt.Sprintf("`%q`", defaultForward)},
	} {
		for _, r := range find(t, page, tc.block).tables()[0] {
			if r.name == tc.arg && r.def != tc.want {
				t.Errorf("%s of %s: the page says %s, the program %s", tc.arg, tc.block, r.def, tc.want)
			}
		}
	}
	if zone := find(t, page, "zone").text; !strings.Contains(zone, fmt.Sprintf("%d seconds", defaultTTL)) {
		t.Errorf("zone: the default TTL is %d", defaultTTL)
	}
}

// TestPageTellsTheLists compares what is enumerated: attributes, functions,
// factors, schedulers, flags.
func TestPageTellsTheLists(t *testing.T) {
	page := languagePage(t)
	code := regexp.MustCompile("`([a-z0-9_-]+)`")
	words := func(s string) []string {
		var out []string
		for _, m := range code.FindAllStringSubmatch(s, -1) {
			out = append(out, m[1])
		}
		return sorted(out)
	}
	functionList := find(t, page, "Functions").text
	if got := words(functionList); !slices.Equal(got, functionNames()) {
		t.Errorf("functions: the page has %v, the program %v", got, functionNames())
	}
	factors := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(find(t, page, "Factors").text, -1)
	var names []string
	for _, m := range factors {
		names = append(names, m[1])
	}
	if !slices.Equal(sorted(names), FactorNames()) {
		t.Errorf("factors: the page has %v, the program %v", names, FactorNames())
	}
	service := find(t, page, "service").text
	for _, word := range slices.Concat(Schedulers, ServiceFlags) {
		if !strings.Contains(service, "`"+word+"`") {
			t.Errorf("service: %s is not mentioned", word)
		}
	}
	rows := strings.Split(find(t, page, "What expressions may use").text, "\n")
	for kind := range attributesOf {
		i := slices.IndexFunc(rows, func(r string) bool {
			first, _, _ := strings.Cut(strings.TrimPrefix(r, "|"), "|")
			return strings.HasPrefix(r, "|") && strings.Contains(first, "`"+string(kind)+"`")
		})
		if i < 0 {
			t.Errorf("attributes: %s has no row", kind)
			continue
		}
		for _, name := range attributeNames(kind) {
			if !strings.Contains(rows[i], "`"+name+"`") {
				t.Errorf("attributes: %s.%s is not mentioned", kind, name)
			}
		}
	}
}

// TestPageTellsWhatIsRefused compares the page with the blocks of other
// languages.
func TestPageTellsWhatIsRefused(t *testing.T) {
	text := find(t, languagePage(t), "Not in this version").text
	for name := range foreignBlocks {
		if !strings.Contains(text, "`"+name) {
			t.Errorf("the block type %q is not on the page", name)
		}
	}
}
