package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// scriptLines are the shell commands of a CI file, wherever they stand.
func scriptLines(v any) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			out = append(out, scriptLines(one)...)
		}
	case map[string]any:
		for key, inner := range v {
			lines, list := inner.([]any)
			text, single := inner.(string)
			switch {
			case key == "run" && single:
				out = append(out, strings.Split(text, "\n")...)
			case (key == "script" || key == "before_script") && list:
				for _, l := range lines {
					out = append(out, l.(string))
				}
			default:
				out = append(out, scriptLines(inner)...)
			}
		}
	}
	return out
}

var call = regexp.MustCompile(`(?:^|[ (])lvslab ([^;|&)]*)`)

// callErrors lists what is wrong with the calls of lvslab in a line: commands and
// flags that the program does not have. called is how many there are.
func callErrors(line string) (called int, wrong []string) {
	for _, m := range call.FindAllStringSubmatch(line, -1) {
		called++
		root := tree()
		c, rest, err := root.Find(strings.Fields(m[1]))
		if err != nil || c == root || c.HasSubCommands() {
			wrong = append(wrong, "no command: "+m[0])
			continue
		}
		for _, word := range rest {
			name, flag := strings.CutPrefix(word, "--")
			name, _, _ = strings.Cut(name, "=")
			if flag && c.Flag(name) == nil {
				wrong = append(wrong, c.CommandPath()+" has no --"+name)
			}
		}
	}
	return called, wrong
}

// TestCIExamples: the files parse, call lvslab as it is, build it by targets that
// the Makefile has, and hand over what they measured.
func TestCIExamples(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../examples/ci/*.yml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	calls := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, line := range scriptLines(doc) {
			n, wrong := callErrors(line)
			calls += n
			for _, w := range wrong {
				t.Errorf("%s: %s", path, w)
			}
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "make" {
				continue
			}
			for _, target := range words[3:] {
				if !strings.Contains(string(makefile), "\n"+target+":") {
					t.Errorf("%s: make has no target %q", path, target)
				}
			}
		}
		if filepath.Base(path) != "github.yml" && (!strings.Contains(string(text), "--junit") || !strings.Contains(string(text), "always")) {
			t.Errorf("%s: what a failed run has found is lost", path)
		}
	}
	if calls != 4 {
		t.Errorf("%d calls of lvslab found, want 4: the test would miss mistakes", calls)
	}
	for line, want := range map[string]string{
		"lvslab aply x.hcl":                 "no command",
		"echo $(lvslab image keys)":         "no command",
		"lvslab apply --auto-aprove x.hcl":  "has no --auto-aprove",
		"lvslab apply --auto-approve x.hcl": "",
	} {
		if _, wrong := callErrors(line); strings.Join(wrong, " ") != want && (want == "" || !strings.Contains(strings.Join(wrong, " "), want)) {
			t.Errorf("%s: %q, want %q", line, wrong, want)
		}
	}
}
