package images

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestRecipeDigestCoversEveryField(t *testing.T) {
	base := Debian12.digest()
	if again := Debian12.digest(); again != base {
		t.Fatalf("digest changes from call to call: %s, %s", base, again)
	}
	change := map[string]func(*Recipe){
		"name":    func(r *Recipe) { r.Name = "x" },
		"suite":   func(r *Recipe) { r.Suite = "x" },
		"package": func(r *Recipe) { r.Packages = append(slices.Clone(r.Packages), "x") },
		"without": func(r *Recipe) { r.Without = r.Without[1:] },
		"modules": func(r *Recipe) { r.Modules = r.Modules[1:] },
		"order":   func(r *Recipe) { r.BootModules = append(slices.Clone(r.BootModules[1:]), r.BootModules[0]) },
		"prune":   func(r *Recipe) { r.Prune = nil },
		"user":    func(r *Recipe) { r.Users = r.Users[1:] },
		"dir":     func(r *Recipe) { r.Dirs = r.Dirs[1:] },
		"file":    func(r *Recipe) { r.Files = maps.Clone(r.Files); r.Files["etc/hosts"] = "" },
		"link":    func(r *Recipe) { r.Links = nil },
		"epoch":   func(r *Recipe) { r.Epoch++ },
		"keep":    func(r *Recipe) { r.KeepLibraries = nil },
		"applets": func(r *Recipe) { r.Applets = nil },
	}
	seen := map[string]string{base: "the recipe itself"}
	for name, f := range change {
		r := Debian12
		f(&r)
		if other, dup := seen[r.digest()]; dup {
			t.Errorf("changing the %s gives the digest of %s", name, other)
		}
		seen[r.digest()] = name
	}
}

func TestImageKey(t *testing.T) {
	a := imageKey("r", map[string]string{"bind9": "1", "dnsperf": "2"})
	if len(a) != 16 {
		t.Errorf("key %q has not 16 digits", a)
	}
	for name, other := range map[string]string{
		"another recipe":  imageKey("s", map[string]string{"bind9": "1", "dnsperf": "2"}),
		"another version": imageKey("r", map[string]string{"bind9": "1.1", "dnsperf": "2"}),
		"a package more":  imageKey("r", map[string]string{"bind9": "1", "dnsperf": "2", "x": "1"}),
		"a package less":  imageKey("r", map[string]string{"bind9": "1"}),
	} {
		if other == a {
			t.Errorf("%s gives the same key", name)
		}
	}
}

// TestDebian12IsConsistent finds slips of the pen in the recipe.
func TestDebian12IsConsistent(t *testing.T) {
	r := Debian12
	for _, d := range r.Dirs {
		if _, err := r.uid(d.Owner); err != nil {
			t.Error(err)
		}
		if strings.HasPrefix(d.Path, "/") || path.Clean(d.Path) != d.Path {
			t.Errorf("directory %q is not a clean relative path", d.Path)
		}
	}
	if _, err := newPruner(r.Prune); err != nil {
		t.Error(err)
	}
	for _, p := range r.Prune {
		if merged(p) != p {
			t.Errorf("prunes %q, which in the merged layout is %q", p, merged(p))
		}
	}
	for name, list := range map[string][]string{"packages": r.Packages, "without": r.Without, "modules": r.Modules, "applets": r.Applets, "prune": r.Prune} {
		seen := map[string]bool{}
		for _, v := range list {
			if seen[v] {
				t.Errorf("%s name %q twice", name, v)
			}
			seen[v] = true
		}
	}
	for _, name := range r.Packages {
		if slices.Contains(r.Without, name) {
			t.Errorf("%s is both asked for and left out", name)
		}
	}
	ids := map[int]string{}
	for _, u := range r.Users {
		if other, dup := ids[u.ID]; dup {
			t.Errorf("%s and %s have the same number", u.Name, other)
		}
		ids[u.ID] = u.Name
	}
	if _, err := r.uid("nosuch"); err == nil {
		t.Error("an unknown owner is no error")
	}
}
