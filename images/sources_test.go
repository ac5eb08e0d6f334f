package images

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestSources(t *testing.T) {
	tests := map[string]struct {
		files   map[string]string
		oneLine []string
		deb822  []string
	}{
		"one line": {
			files: map[string]string{"sources.list": "# comment\ndeb http://m.example/debian bookworm main # tail\n" +
				"deb-src http://m.example/debian bookworm main\n\tdeb [arch=amd64 signed-by=/k.gpg] http://m.example/debian bookworm-updates main contrib\n" +
				"deb http://m.example/debian trixie main\ndebug x bookworm main\ndeb [broken http://m.example bookworm main\ndeb http://m.example\n"},
			oneLine: []string{
				"deb http://m.example/debian bookworm main",
				"deb [arch=amd64 signed-by=/k.gpg] http://m.example/debian bookworm-updates main contrib",
			},
		},
		"stanzas": {
			files: map[string]string{"sources.list.d/debian.sources": "Types: deb deb-src\n# mirror\nURIs: http://m.example/debian\n" +
				"Suites: bookworm trixie bookworm-updates bookworm-backports\nComponents: main\nSigned-By:\n -----BEGIN PGP-----\n .\n abc\n\n" +
				"Types: deb\nURIs: http://m.example/sec\nSuites: bookworm-security\nEnabled: no\n\n" +
				"Types: deb-src\nURIs: http://m.example/src\nSuites: bookworm\n"},
			deb822: []string{"Types: deb\nURIs: http://m.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN PGP-----\n .\n abc\n"},
		},
		"both, in apt's order, other files ignored": {
			files: map[string]string{
				"sources.list.d/b.list":          "deb http://b.example bookworm main\n",
				"sources.list.d/a.list":          "deb http://a.example bookworm main\n",
				"sources.list.d/c.sources":       "types: deb\nuris: http://c.example\nsuites: bookworm-security\n",
				"sources.list.d/d.list.disabled": "deb http://d.example bookworm main\n",
			},
			oneLine: []string{"deb http://a.example bookworm main", "deb http://b.example bookworm main"},
			deb822:  []string{"types: deb\nuris: http://c.example\nsuites: bookworm-security\n"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeFilesFor(t, tt.files)
			got, err := readSources(dir, "bookworm")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.oneLine, got.oneLine); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.deb822, normal(got.deb822)); d != "" {
				t.Error(d)
			}
			out := t.TempDir()
			paths, err := got.write(out)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(len(tt.oneLine), 1) + min(len(tt.deb822), 1); len(paths) != want {
				t.Errorf("wrote %v, want %d files", paths, want)
			}
			for _, p := range paths {
				if info, err := os.Stat(p); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v", p, err)
				}
			}
		})
	}
}

// normal lets the tables write one blank after the colon.
func normal(stanzas []string) []string {
	var out []string
	for _, s := range stanzas {
		out = append(out, strings.ReplaceAll(s, ":  ", ": "))
	}
	return out
}

func writeFilesFor(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNoSources(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":       {nil, "no package source at all"},
		"other release": {map[string]string{"sources.list": "deb http://m.example trixie main\ndeb http://m.example trixie-security main\ndeb http://m.example trixie main\n"}, "sources for trixie, trixie-security only"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readSources(writeFilesFor(t, tt.files), "bookworm")
			var f *diag.Failure
			if !errors.As(err, &f) || f.Diagnostic.Remedy == "" || !strings.Contains(f.Diagnostic.Detail, tt.want) {
				t.Errorf("got %v, want a failure that says %q", err, tt.want)
			}
		})
	}
}

func FuzzSources(f *testing.F) {
	f.Add("deb [arch=amd64] http://m.example/debian bookworm main\n")
	f.Add("Types: deb\nURIs: http://m.example\nSuites: bookworm\nSigned-By:\n .\n x\n")
	f.Add("deb [")
	f.Add(" continuation first\n:\n\n\n")
	f.Add("deb\t[a]\tu bookworm")
	f.Fuzz(func(t *testing.T, text string) {
		var s sources
		s.addOneLine(text, "bookworm")
		s.addDeb822(text, "bookworm")
		for _, line := range s.oneLine {
			if !strings.HasPrefix(line, "deb") || strings.Contains(line, "\n") || !strings.Contains(line, "bookworm") {
				t.Errorf("kept %q", line)
			}
		}
		for _, st := range s.deb822 {
			again := stanzas(st)
			if len(again) != 1 || again[0].get("Types") != "deb" || !strings.Contains(again[0].get("Suites"), "bookworm") {
				t.Errorf("kept %q, which reads back as %v", st, again)
			}
		}
	})
}
