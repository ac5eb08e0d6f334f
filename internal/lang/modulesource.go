package lang

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/diag"
)

// Bounds of what modules may pull in: a link that leads into itself, or modules
// that call each other many times over, must end.
const (
	maxModuleDepth = 16
	maxModules     = 256 // directories read, and instances made
)

// readModules reads the directories that module blocks name, and those that the
// modules there name. What cannot be read is noted and told where it is called.
func (s *Source) readModules() {
	type place struct {
		files []File
		root  string
		depth int
	}
	for todo := []place{{s.Files, s.Root, 1}}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		for _, dir := range calledDirs(at.files, at.root) {
			if _, known := s.Modules[dir]; known || len(s.Modules) >= maxModules || at.depth > maxModuleDepth {
				continue
			}
			if s.Modules == nil {
				s.Modules = map[string]Module{}
			}
			m := readModule(dir)
			s.Modules[dir] = m
			todo = append(todo, place{m.Files, dir, at.depth + 1})
		}
	}
}

func readModule(dir string) Module {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Module{Trouble: "there is no such directory"}
	case err != nil:
		return Module{Trouble: err.Error()}
	}
	var m Module
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), Extension) {
			continue
		}
		f, ds := readFile(filepath.Join(dir, e.Name()))
		if ds.HasErrors() {
			return Module{Trouble: ds[0].Detail}
		}
		m.Files = append(m.Files, f)
	}
	if len(m.Files) == 0 {
		return Module{Trouble: "it holds no file that ends in " + Extension}
	}
	sort.Slice(m.Files, func(i, j int) bool { return m.Files[i].Name < m.Files[j].Name })
	return m
}

// calledDirs are the directories of the module blocks in files that stand in a
// directory. Mistakes are told by the parser.
func calledDirs(files []File, root string) []string {
	var out []string
	for _, f := range files {
		if len(f.Bytes) > maxFileBytes {
			continue
		}
		if _, bad := tooDeep(f.Bytes, f.Name); bad {
			continue
		}
		file, _ := hclsyntax.ParseConfig(f.Bytes, f.Name, hcl.InitialPos)
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		for _, hb := range body.Blocks {
			if a := hb.Body.Attributes["source"]; hb.Type == "module" && a != nil {
				if dir, d := moduleDir(a, root); d == nil {
					out = append(out, dir)
				}
			}
		}
	}
	return out
}

// moduleDir is the directory that a source argument names, seen from the
// directory of the file, or what is wrong with it.
func moduleDir(a *hclsyntax.Attribute, root string) (string, *diag.Diagnostic) {
	const local = `Write the path of a directory that begins with ./ or ../, for example "./modules/site".`
	v, ds := a.Expr.Value(nil)
	if ds.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return "", fail("Not a module's source", local, "source must be a text written out: modules are read before anything is evaluated.")
	}
	path := v.AsString()
	if !strings.HasPrefix(path, "./") && !strings.HasPrefix(path, "../") && path != "." && path != ".." {
		return "", fail("Not a local module", local, "source is %q. Modules come from directories beside the topology, from no registry, archive or repository.", path)
	}
	if strings.ContainsRune(path, 0) {
		return "", fail("Not a module's source", local, "source holds a zero byte.")
	}
	return filepath.Join(root, path), nil
}
