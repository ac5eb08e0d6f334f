package lang

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// Extension is the ending of topology files.
const Extension = ".hcl"

// AutoVarsExtension is the ending of variable files that a directory's
// topology takes by itself, in the order of their names.
const AutoVarsExtension = ".auto.lvslab.vars"

// maxFileBytes bounds one file. The parser recurses with the text, so that a
// hostile file must be refused before it is parsed; the largest topology seen,
// with 1,000 records written out, has 60 kB.
const maxFileBytes = 1 << 20

// File is one file as it was read. Name is what messages call it: the path as
// the user gave it.
type File struct {
	Name  string
	Bytes []byte
}

// Source is the text of a topology.
type Source struct {
	// Files are the topology's files, ordered by name.
	Files []File
	// AutoVars are the directory's *.auto.lvslab.vars, ordered by name; none for a single file.
	AutoVars []File
	// Root is the directory of the files, "" for a builtin topology.
	Root string
	// Modules are the directories that module blocks name, by their paths as they
	// are seen from where Root is seen from.
	Modules map[string]Module
	// Version is the running version, "" to skip: a topology that requires
	// another is refused before anything else in it is looked at.
	Version string
	// Name is the lab's name when there is no lab block: that of the file or
	// directory, reduced to the characters of a label.
	Name string
}

// Module is the text of a module's directory. Trouble says why it could not be
// read, "" when it was.
type Module struct {
	Files   []File
	Trouble string `json:",omitempty"`
}

// All returns all files: of the topology, of its modules, and those with variables.
func (s Source) All() []File {
	out := append(slices.Clone(s.Files), s.AutoVars...)
	for _, dir := range sortedKeys(s.Modules) {
		out = append(out, s.Modules[dir].Files...)
	}
	return out
}

// Text returns the bytes of the file that messages call name, for showing a
// snippet, or nil.
func (s Source) Text(name string) []byte {
	for _, f := range s.All() {
		if f.Name == name {
			return f.Bytes
		}
	}
	return nil
}

// BuiltinSource makes the source of an embedded topology. Messages call its
// file builtin:name.
func BuiltinSource(name string, text []byte) Source {
	return Source{Files: []File{{Name: "builtin:" + name, Bytes: text}}, Name: labelFrom(name)}
}

// ReadSource reads a topology: a file alone, or all .hcl files of a directory
// (not of those below) with its *.auto.lvslab.vars; and the modules that they
// call.
func ReadSource(path string) (Source, diag.Diagnostics) {
	src, ds := readRoot(path)
	if !ds.HasErrors() {
		src.readModules()
	}
	return src, ds
}

// TextSource makes the source of a topology that is no file: the text stands for
// one at path, beside which its modules are looked for.
func TextSource(path string, text []byte) (Source, diag.Diagnostics) {
	if len(text) > maxFileBytes {
		return Source{}, diag.Diagnostics{tooLarge(path, len(text))}
	}
	src := fileSource(path, File{Name: path, Bytes: text})
	src.readModules()
	return src, nil
}

func readRoot(path string) (Source, diag.Diagnostics) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Source{}, diag.Diagnostics{diag.Errorf("No such topology", missingRemedy(path), "There is no file or directory %q.", path)}
	case err != nil:
		return Source{}, diag.Diagnostics{diag.Errorf("Cannot read the topology", "Check the permissions of the path.", "%v.", err)}
	case info.IsDir():
		return readDir(path)
	}
	f, ds := readFile(path)
	if ds.HasErrors() {
		return Source{}, ds
	}
	return fileSource(path, f), nil
}

func fileSource(path string, f File) Source {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	name := strings.TrimSuffix(filepath.Base(abs), Extension)
	return Source{Files: []File{f}, Root: filepath.Dir(path), Name: labelFrom(name)}
}

func readDir(dir string) (Source, diag.Diagnostics) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Source{}, diag.Diagnostics{diag.Errorf("Cannot read the topology", "Check the permissions of the directory.", "%v.", err)}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	src := Source{Root: dir, Name: labelFrom(filepath.Base(abs))}
	var ds diag.Diagnostics
	for _, e := range entries {
		hcl := strings.HasSuffix(e.Name(), Extension)
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || !hcl && !strings.HasSuffix(e.Name(), AutoVarsExtension) {
			continue
		}
		f, fds := readFile(filepath.Join(dir, e.Name()))
		ds = append(ds, fds...)
		if hcl {
			src.Files = append(src.Files, f)
		} else {
			src.AutoVars = append(src.AutoVars, f)
		}
	}
	sort.Slice(src.Files, func(i, j int) bool { return src.Files[i].Name < src.Files[j].Name })
	sort.Slice(src.AutoVars, func(i, j int) bool { return src.AutoVars[i].Name < src.AutoVars[j].Name })
	if len(src.Files) == 0 && !ds.HasErrors() {
		ds = append(ds, diag.Errorf("No topology in this directory", "Name a directory that holds .hcl files, or a file, or builtin:NAME.",
			"%q holds no file that ends in %s.", dir, Extension))
	}
	return src, ds
}

func readFile(path string) (File, diag.Diagnostics) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxFileBytes {
		return File{Name: path}, diag.Diagnostics{tooLarge(path, int(info.Size()))}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return File{Name: path}, diag.Diagnostics{diag.Errorf("Cannot read the topology", "Check the permissions of the file.", "%v.", err)}
	}
	return File{Name: path, Bytes: b}, nil
}

func tooLarge(name string, size int) diag.Diagnostic {
	return diag.Errorf("The file is too large", "Write repeated things with a for expression, count or for_each.",
		"%s has %d bytes; a topology file may have %d.", name, size, maxFileBytes)
}

func missingRemedy(path string) string {
	siblings, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+Extension))
	if err != nil || len(siblings) == 0 {
		return "Name a .hcl file, a directory that holds some, or builtin:NAME."
	}
	if s := nearest(path, siblings); s != "" {
		return "Did you mean " + s + "?"
	}
	return "Name a .hcl file, a directory that holds some, or builtin:NAME. Here is " + siblings[0] + "."
}

// labelFrom reduces a file name to a label: letters, digits, dash, underscore.
func labelFrom(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !isLabelByte(c) {
			b[i] = '-'
		}
	}
	s := strings.Trim(string(b), "-_0123456789")
	if s == "" {
		return "lab"
	}
	return s[:min(len(s), maxLabel)]
}
