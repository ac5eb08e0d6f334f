package images

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// aptDir is where the machine's package sources are set up, see
// sources.list(5). Tests use a directory of their own.
const aptDir = "/etc/apt"

// sources are the machine's package sources that serve one suite, in apt's two
// formats and verbatim but for the suites: options and keys stay as they are.
type sources struct {
	oneLine []string // lines of sources.list
	deb822  []string // stanzas of *.sources
	other   []string // suites found that do not serve, for the message
}

func (s sources) empty() bool { return len(s.oneLine)+len(s.deb822) == 0 }

// wanted reports whether an entry for suite serves a guest of release: the
// release itself, its updates and its security fixes. Debian 10 and earlier
// wrote the last as buster/updates.
func wanted(suite, release string) bool {
	switch suite {
	case release, release + "-updates", release + "-security", release + "/updates":
		return true
	}
	return false
}

// sourcesFor returns the sources that a recipe is made from. A kernel of
// another suite comes from the machine's sources for it; when there are none,
// from where the recipe's own suite comes from, for Debian keeps its suites
// side by side on one mirror.
func sourcesFor(dir string, recipe Recipe) (sources, error) {
	src, err := readSources(dir, recipe.Suite)
	if err != nil || recipe.KernelSuite == "" {
		return src, err
	}
	more, err := readSources(dir, recipe.KernelSuite)
	if err != nil {
		more = src.forSuite(recipe.Suite, recipe.KernelSuite)
	}
	if more.empty() {
		return src, err
	}
	src.oneLine = append(src.oneLine, more.oneLine...)
	src.deb822 = append(src.deb822, more.deb822...)
	return src, nil
}

// forSuite returns the entries for a release, made into entries for another.
func (s sources) forSuite(release, other string) sources {
	var out sources
	for _, line := range s.oneLine {
		// Not in the options, which stand in brackets before the address.
		options, rest := "", line
		if i := strings.Index(line, "]"); i >= 0 {
			options, rest = line[:i+1], line[i+1:]
		}
		fields := strings.Fields(rest)
		if i := slices.Index(fields, release); i >= 0 {
			fields[i] = other
			out.oneLine = append(out.oneLine, strings.TrimSpace(options+" "+strings.Join(fields, " ")))
		}
	}
	for _, text := range s.deb822 {
		for _, st := range stanzas(text) {
			if contains(strings.Fields(st.get("Suites")), release) {
				st.set("Suites", other)
				out.deb822 = append(out.deb822, st.String())
			}
		}
	}
	return out
}

// readSources collects the sources for a release from dir, in apt's order.
func readSources(dir, release string) (sources, error) {
	var all sources
	files := []string{filepath.Join(dir, "sources.list")}
	entries, _ := os.ReadDir(filepath.Join(dir, "sources.list.d"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	for _, name := range names {
		files = append(files, filepath.Join(dir, "sources.list.d", name))
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // absent, or not for us to read: apt skips it for this user too
		}
		switch {
		case strings.HasSuffix(path, ".list"):
			all.addOneLine(string(text), release)
		case strings.HasSuffix(path, ".sources"):
			all.addDeb822(string(text), release)
		}
	}
	if all.empty() {
		return all, noSources(dir, release, all.other)
	}
	return all, nil
}

func noSources(dir, release string, other []string) error {
	found := "no package source at all"
	if len(other) > 0 {
		sort.Strings(other)
		found = "sources for " + strings.Join(compact(other), ", ") + " only"
	}
	return diag.Fail(nil, fmt.Sprintf("No package source for %s", release),
		fmt.Sprintf("Add a Debian source with the suite %s below %s (see `man sources.list`) and run `apt-get update`.", release, dir),
		"the guest image is made of packages of %s, and %s has %s", release, dir, found)
}

func compact(sorted []string) []string {
	var out []string
	for i, s := range sorted {
		if i == 0 || s != sorted[i-1] {
			out = append(out, s)
		}
	}
	return out
}

// addOneLine reads the format `deb [options] uri suite components…`.
func (s *sources) addOneLine(text, release string) {
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := strings.TrimSpace(strings.SplitN(scan.Text(), "#", 2)[0])
		rest, isDeb := strings.CutPrefix(line, "deb")
		if !isDeb || rest == "" || (rest[0] != ' ' && rest[0] != '\t' && rest[0] != '[') {
			continue
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			_, after, closed := strings.Cut(rest, "]")
			if !closed {
				continue
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		if wanted(fields[1], release) {
			s.oneLine = append(s.oneLine, line)
		} else {
			s.other = append(s.other, fields[1])
		}
	}
}

// addDeb822 reads the stanza format.
func (s *sources) addDeb822(text, release string) {
	for _, stanza := range stanzas(text) {
		if contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(stanza.get("Enabled"))) {
			continue
		}
		if !contains(strings.Fields(stanza.get("Types")), "deb") {
			continue
		}
		var keep []string
		for _, suite := range strings.Fields(stanza.get("Suites")) {
			if wanted(suite, release) {
				keep = append(keep, suite)
			} else {
				s.other = append(s.other, suite)
			}
		}
		if len(keep) == 0 || stanza.get("URIs") == "" {
			continue
		}
		stanza.set("Types", "deb")
		stanza.set("Suites", strings.Join(keep, " "))
		s.deb822 = append(s.deb822, stanza.String())
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// stanza is one paragraph of fields in their order, see deb822(5).
type stanza []field

type field struct{ name, value string } // value keeps its continuation lines

func (st stanza) get(name string) string {
	for _, f := range st {
		if strings.EqualFold(f.name, name) {
			return strings.TrimSpace(f.value)
		}
	}
	return ""
}

func (st stanza) set(name, value string) {
	for i := range st {
		if strings.EqualFold(st[i].name, name) {
			st[i].value = " " + value
		}
	}
}

func (st stanza) String() string {
	var b strings.Builder
	for _, f := range st {
		fmt.Fprintf(&b, "%s:%s\n", f.name, f.value)
	}
	return b.String()
}

// stanzas splits a deb822 text. Comment lines and lines that are neither field
// nor continuation are dropped.
func stanzas(text string) []stanza {
	var list []stanza
	var current stanza
	flush := func() {
		if len(current) > 0 {
			list = append(list, current)
		}
		current = nil
	}
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, "\r")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			if n := len(current); n > 0 {
				current[n-1].value += "\n" + line
			}
		default:
			if name, value, ok := strings.Cut(line, ":"); ok && name != "" && !strings.ContainsAny(name, " \t") {
				current = append(current, field{name, value})
			}
		}
	}
	flush()
	return list
}

// write puts the sources into files that mmdebstrap takes as its mirrors and
// returns their paths.
func (s sources) write(dir string) ([]string, error) {
	var paths []string
	put := func(name, text string) error {
		path := filepath.Join(dir, name)
		paths = append(paths, path)
		return os.WriteFile(path, []byte(text), 0o644)
	}
	if len(s.oneLine) > 0 {
		if err := put("machine.list", strings.Join(s.oneLine, "\n")+"\n"); err != nil {
			return nil, err
		}
	}
	if len(s.deb822) > 0 {
		if err := put("machine.sources", strings.Join(s.deb822, "\n")); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
