package images

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// program is what the dynamic loader needs to know of an ELF file.
type program struct {
	needed []string
	interp string
}

// readProgram returns nil for what is not an ELF file. Kernel modules are ELF
// too, but need nothing.
func readProgram(e entry) (*program, error) {
	r, size, closer, err := e.open()
	if err != nil {
		return nil, err
	}
	defer closer()
	var magic [4]byte
	if size < 64 {
		return nil, nil
	}
	if _, err := r.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, nil
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, nil // a data file that starts like one
	}
	p := &program{}
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_INTERP {
			text := make([]byte, prog.Filesz)
			if _, err := prog.ReadAt(text, 0); err == nil {
				p.interp = strings.TrimRight(string(text), "\x00")
			}
		}
	}
	p.needed, err = f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read its libraries: %w", err)
	}
	return p, nil
}

func (e entry) open() (io.ReaderAt, int64, func(), error) {
	if e.source == "" {
		return bytes.NewReader(e.data), int64(len(e.data)), func() {}, nil
	}
	f, err := os.Open(e.source)
	if err != nil {
		return nil, 0, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, nil, err
	}
	return f, info.Size(), func() { f.Close() }, nil
}

// isLibrary reports whether the dynamic loader would look here for a library:
// directly in a library directory. What lies deeper is a plugin and counts as
// a program.
func isLibrary(p string) bool {
	dir := path.Dir(p)
	parts := strings.Split(dir, "/")
	inLib := len(parts) >= 2 && parts[0] == "usr" && (parts[1] == "lib" || parts[1] == "lib64")
	return inLib && (len(parts) == 2 || (len(parts) == 3 && strings.Contains(parts[2], "-linux-"))) &&
		strings.Contains(path.Base(p), ".so")
}

// pruneLibraries removes the shared libraries that nothing in the tree needs,
// and fails when a program needs one that is not there: that would show in the
// guest only, as "not found" for a program that is.
func (t tree) pruneLibraries(keep []string) error {
	libs := map[string]string{} // name → path
	var queue []string
	for _, p := range t.paths() {
		switch {
		case t[p].mode.IsDir() || strings.HasSuffix(p, ".ko"):
		case isLibrary(p):
			libs[path.Base(p)] = p
		case t[p].mode.IsRegular():
			queue = append(queue, p)
		}
	}
	for _, name := range keep {
		if p, ok := libs[name]; ok {
			queue = append(queue, p)
		}
	}
	used := map[string]bool{}
	missing := map[string][]string{}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if used[p] {
			continue
		}
		used[p] = true
		e := t[p]
		if e.link != "" {
			queue = append(queue, t.resolve(p, e.link))
			continue
		}
		prog, err := readProgram(e)
		if err != nil {
			return fmt.Errorf("/%s: %w", p, err)
		}
		if prog == nil {
			continue
		}
		for _, name := range prog.wants() {
			if lib, ok := libs[name]; ok {
				queue = append(queue, lib)
			} else {
				missing[name] = append(missing[name], "/"+p)
			}
		}
	}
	if len(missing) > 0 {
		return missingLibraries(missing)
	}
	for _, p := range libs {
		if !used[p] {
			delete(t, p)
		}
	}
	return nil
}

// wants returns the names of the libraries, the loader among them.
func (p *program) wants() []string {
	if p.interp == "" {
		return p.needed
	}
	return append([]string{path.Base(p.interp)}, p.needed...)
}

func missingLibraries(missing map[string][]string) error {
	var lines []string
	for name, users := range missing {
		sort.Strings(users)
		lines = append(lines, fmt.Sprintf("  %s, needed by %s", name, strings.Join(users, ", ")))
	}
	sort.Strings(lines)
	return diag.Fail(nil, "Programs of the image lack libraries",
		"Take the package that holds the library out of the recipe's Without list, or prune the program.",
		"not in the root:\n%s", strings.Join(lines, "\n"))
}
