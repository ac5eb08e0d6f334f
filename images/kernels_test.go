package images

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestForKernel(t *testing.T) {
	digests := map[string]string{}
	for name, want := range map[string][3]string{
		"":                                       {"debian-12", DefaultKernel, ""},
		DefaultKernel:                            {"debian-12", DefaultKernel, ""},
		DefaultKernel + "/bookworm":              {"debian-12+cloud-amd64+bookworm", DefaultKernel, ""},
		"linux-image-6.12-cloud-amd64":           {"debian-12+6.12-cloud-amd64", "linux-image-6.12-cloud-amd64", ""},
		"linux-image-6.12.117+deb12-cloud-amd64": {"debian-12+6.12.117+deb12-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64", ""},
		"linux-image-cloud-amd64/bookworm-backports": {"debian-12+cloud-amd64+bookworm-backports", DefaultKernel, "bookworm-backports"},
	} {
		r, err := ForKernel(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := [3]string{r.Name, r.kernelPackageOf(), r.KernelSuite}; got != want {
			t.Errorf("%s gives %q, want %q", name, got, want)
		}
		if other, dup := digests[r.digest()]; dup && r.Name != "debian-12" {
			t.Errorf("%s and %s have one digest", name, other)
		}
		digests[r.digest()] = name
		if len(r.Packages) != len(Debian12.Packages) {
			t.Errorf("%s: %d packages, want %d", name, len(r.Packages), len(Debian12.Packages))
		}
	}
	if !slices.Contains(Debian12.Packages, DefaultKernel) {
		t.Error("the recipe that all share was changed")
	}
	for _, name := range []string{"6.12", "bind9", "linux-image-", "linux-image-x y", "linux-image-x/", "linux-image-x/y/z", "linux-image-X", "linux-image-x;id", "../linux-image-x", "linux-image-x,y"} {
		_, err := ForKernel(name)
		var known *diag.Failure
		if !errors.As(err, &known) {
			t.Errorf("%q: %v, want a refusal with a remedy", name, err)
		}
	}
}

// TestSourcesForAnotherSuite: the backports come from where the machine says,
// else from the mirror of the suite itself, with its options and keys.
func TestSourcesForAnotherSuite(t *testing.T) {
	r := Recipe{Name: "x", Suite: "bookworm", KernelSuite: "bookworm-backports"}
	tests := map[string]struct {
		files           map[string]string
		oneLine, deb822 []string
	}{
		"one line": {
			files: map[string]string{"sources.list": "deb [arch=amd64 signed-by=/k.gpg] http://m.example/bookworm/ bookworm main\ndeb http://s.example bookworm-security main\n"},
			oneLine: []string{"deb [arch=amd64 signed-by=/k.gpg] http://m.example/bookworm/ bookworm main", "deb http://s.example bookworm-security main",
				"deb [arch=amd64 signed-by=/k.gpg] http://m.example/bookworm/ bookworm-backports main"},
		},
		"stanza": {
			files: map[string]string{"sources.list.d/d.sources": "Types: deb\nURIs: http://m.example\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n\n" +
				"Types: deb\nURIs: http://s.example\nSuites: bookworm-security\nComponents: main\n"},
			deb822: []string{
				"Types: deb\nURIs: http://m.example\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n",
				"Types: deb\nURIs: http://s.example\nSuites: bookworm-security\nComponents: main\n",
				"Types: deb\nURIs: http://m.example\nSuites: bookworm-backports\nComponents: main\nSigned-By: /k.gpg\n",
			},
		},
		"the machine's own word comes first": {
			files:   map[string]string{"sources.list": "deb http://m.example bookworm main\ndeb http://b.example bookworm-backports main\n"},
			oneLine: []string{"deb http://m.example bookworm main", "deb http://b.example bookworm-backports main"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sourcesFor(writeFilesFor(t, tt.files), r)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.oneLine, got.oneLine); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.deb822, normal(got.deb822)); d != "" {
				t.Error(d)
			}
		})
	}
	empty := writeFilesFor(t, map[string]string{"sources.list": "deb http://m.example trixie main\n"})
	if _, err := sourcesFor(empty, r); err == nil {
		t.Error("a machine without sources for the suite can build")
	}
	// Updates and fixes alone are no place for a suite beside them.
	security := writeFilesFor(t, map[string]string{"sources.list": "deb http://s.example bookworm-security main\n"})
	if _, err := sourcesFor(security, r); err == nil {
		t.Error("a machine without the suite itself can build its backports")
	}
}

func TestPreferences(t *testing.T) {
	if p := preferences(Debian12); strings.Contains(p, "linux-image") {
		t.Errorf("the default recipe pins a kernel:\n%s", p)
	}
	p := preferences(Recipe{KernelSuite: "bookworm-backports"})
	kernel, rest := strings.Index(p, "Package: linux-image-*\nPin: release n=bookworm-backports\nPin-Priority: 995"), strings.Index(p, "Package: *\nPin: release n=bookworm-backports\nPin-Priority: 100")
	if own := strings.Index(p, "o=Debian"); kernel < 0 || rest < kernel || own < rest {
		t.Errorf("the other suite would give more than the kernel:\n%s", p)
	}
}

// TestNoMirrorInRecipes: nothing in the repository may name a host of a mirror.
func TestNoMirrorInRecipes(t *testing.T) {
	for _, file := range []string{"kernels.go", "debian12.go", "sources.go"} {
		text, err := os.ReadFile(filepath.Join(".", file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "://") {
			t.Errorf("%s names an address", file)
		}
	}
}
