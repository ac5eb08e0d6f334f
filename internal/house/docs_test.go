package house

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// pages are README.md, the READMEs below it and docs/*.md.
func pages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md"} {
		found, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) < 5 {
		t.Fatalf("only %d pages: the rules would check nothing", len(out))
	}
	return out
}

// fence is a block of code in a page.
type fence struct {
	page, info, text string
	line             int // of its first line of code
}

func (f fence) String() string { return fmt.Sprintf("%s:%d", f.page, f.line) }

func fences(t *testing.T, path string) []fence {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(root(t), path)
	if err != nil {
		t.Fatal(err)
	}
	var out []fence
	var open *fence
	for i, line := range strings.Split(string(b), "\n") {
		switch info, mark := strings.CutPrefix(line, "```"); {
		case mark && open == nil:
			open = &fence{page: rel, info: strings.TrimSpace(info), line: i + 2}
		case mark:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s: the block of code is not closed", *open)
	}
	return out
}

// TestExamplesInPages: a block of code marked hcl is a whole topology, which
// must be right from its syntax to its checks. One marked "hcl fragment" takes
// the place of the same-named blocks of its page's first whole one.
func TestExamplesInPages(t *testing.T) {
	whole, fragments := 0, 0
	for _, page := range pages(t) {
		base := ""
		for _, f := range fences(t, page) {
			text := f.text
			switch f.info {
			case "hcl":
				whole++
				if base == "" {
					base = f.text
				}
			case "hcl fragment":
				fragments++
				if base == "" {
					t.Errorf("%s: there is no whole topology before it", f)
					continue
				}
				text = without(t, base, f) + f.text
			default:
				if strings.HasPrefix(f.info, "hcl") || strings.HasPrefix(f.info, "terraform") {
					t.Errorf("%s: %q is neither hcl nor hcl fragment", f, f.info)
				}
				continue
			}
			src := lang.Source{Name: "page", Files: []lang.File{{Name: f.String(), Bytes: []byte(text)}}}
			for _, d := range carriedOut(src) {
				t.Errorf("%s: %s", f, d)
			}
			if out, ds := lang.Format([]byte(f.text), f.String()); ds.HasErrors() || string(out) != f.text {
				t.Errorf("%s: lvslab fmt would write\n%s", f, out)
			}
		}
	}
	if whole < 2 || fragments < 3 {
		t.Errorf("%d topologies and %d fragments: the pages have lost their examples", whole, fragments)
	}
}

// without takes the blocks that a fragment declares itself out of a topology.
func without(t *testing.T, base string, f fence) string {
	t.Helper()
	theirs := map[string]bool{}
	for _, b := range blocks(t, f.text, f.String()) {
		theirs[b.Type+" "+strings.Join(b.Labels, " ")] = true
	}
	out := ""
	for _, b := range blocks(t, base, f.page) {
		if !theirs[b.Type+" "+strings.Join(b.Labels, " ")] {
			r := hcl.RangeBetween(b.TypeRange, b.CloseBraceRange)
			out += string(r.SliceBytes([]byte(base))) + "\n"
		}
	}
	return out
}

func blocks(t *testing.T, text, name string) hclsyntax.Blocks {
	t.Helper()
	file, ds := hclsyntax.ParseConfig([]byte(text), name, hcl.InitialPos)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	return file.Body.(*hclsyntax.Body).Blocks
}

// TestShippedTopologies does the same with what ships as files: checks and
// outputs that name a treatment must name one that there is.
func TestShippedTopologies(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"topologies/*.hcl", "examples/*"} {
		found, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			inside, _ := filepath.Glob(filepath.Join(path, "*"+lang.Extension)) // none in a directory of scripts
			if len(inside) > 0 || filepath.Ext(path) == lang.Extension {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) < 3 {
		t.Fatalf("only %v", paths)
	}
	for _, path := range paths {
		src, ds := lang.ReadSource(path)
		if !ds.HasErrors() {
			ds = carriedOut(src)
		}
		for _, d := range ds {
			t.Errorf("%s: %s", path, d)
		}
	}
}

// carriedOut takes a topology through everything that needs no machine, with
// results of the shape that its experiments will have: all treatments, answered
// by the first backend alone. Failing checks are not its matter.
func carriedOut(src lang.Source) diag.Diagnostics {
	config, ds := lang.Parse(src)
	if ds.HasErrors() {
		return ds
	}
	skeleton, more := config.Skeleton(lang.Inputs{})
	if ds = append(ds, more...); ds.HasErrors() {
		return ds
	}
	var addresses map[string]netip.Addr
	if addresses, more = topo.Assign(skeleton, nil); more.HasErrors() {
		return append(ds, more...)
	}
	t, more := config.Resolve(skeleton, addresses)
	if ds = append(ds, more...); ds.HasErrors() {
		return ds
	}
	results := &lang.Results{Experiments: map[string]lang.ExperimentResult{}, Paths: map[string][]lang.PathResult{}}
	for _, x := range t.Experiments {
		treatments, more := experiment.Treatments(t, x)
		ds = append(ds, more...)
		service, _ := t.Service(x.Service)
		r := lang.ExperimentResult{Shares: map[string]map[string]float64{}, Decisions: map[string]float64{}}
		for _, tr := range treatments {
			r.Decisions[tr.ID], r.Shares[tr.ID] = 1, map[string]float64{}
			for i, rs := range service.RealServers {
				r.Shares[tr.ID][rs.Backend.String()] = map[bool]float64{true: 1}[i == 0]
			}
		}
		results.Experiments[x.Noun.Name()] = r
	}
	for _, svc := range t.Services {
		for _, rs := range svc.RealServers {
			results.Paths[svc.Noun.Name()] = append(results.Paths[svc.Noun.Name()], lang.PathResult{Backend: rs.Backend.String()})
		}
	}
	_, more = config.Conclude(skeleton, t, results)
	return append(ds, more...)
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inline = regexp.MustCompile("`[^`\n]*`")
)

// anchor is the fragment that GitHub gives a heading.
func anchor(heading string) string {
	s := strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	s = regexp.MustCompile("[^a-z0-9 _-]").ReplaceAllString(s, "")
	return strings.ReplaceAll(s, " ", "-")
}

// TestLinksInPages: relative links lead to a file in the repository, and to a
// heading that it has.
func TestLinksInPages(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		prose := inline.ReplaceAllString(regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(string(b), ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			path, heading, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			text, err := os.ReadFile(target)
			if info, serr := os.Stat(target); serr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
				continue
			}
			if heading != "" && !slices.Contains(anchors(string(text)), heading) {
				t.Errorf("%s: %s has no heading %q", page, target, heading)
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d relative links", checked)
	}
}

func anchors(text string) []string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			out = append(out, anchor(line))
		}
	}
	return out
}

// TestEnvironmentIsDocumented: a variable of the environment that the program
// reads stands in docs/commands.md. Those of tests do not.
func TestEnvironmentIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root(t), "ls-files", "*.go").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	variable := regexp.MustCompile(`"(LVSLAB_[A-Z]+_?)"`)
	seen := map[string]bool{}
	for _, f := range strings.Fields(string(out)) {
		if strings.HasSuffix(f, "_test.go") || strings.HasPrefix(f, "internal/guesttest/") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root(t), f))
		if err != nil {
			continue // deleted in the working tree
		}
		for _, m := range variable.FindAllStringSubmatch(string(b), -1) {
			seen[m[1]] = true
			if !strings.Contains(string(page), "`"+m[1]) {
				t.Errorf("%s reads %s, which docs/commands.md does not mention", f, m[1])
			}
		}
	}
	if len(seen) < 3 {
		t.Errorf("only %v found", seen)
	}
}
