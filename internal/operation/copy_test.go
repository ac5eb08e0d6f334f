package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/sftp"

	"github.com/lvslab/lvslab/internal/diag"
)

// fileServer is a guest's file transfer: the server that the agent runs, here.
func fileServer(t *testing.T) files {
	t.Helper()
	here, there := net.Pipe()
	server, err := sftp.NewServer(there)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }()
	c, err := sftp.NewClientPipe(here, here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); here.Close(); there.Close() })
	return nodeFiles{c}
}

// listing is what is below a directory: path, mode and content.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out = append(out, fmt.Sprintf("%s %03o %d %.8s", rel, info.Mode().Perm(), len(b), b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func put(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestCopy(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	put(t, filepath.Join(src, "one"), "1", 0o600)
	put(t, filepath.Join(src, "sub/run"), strings.Repeat("x", 1<<20), 0o755)
	guest, there := fileServer(t), t.TempDir()
	c := &copying{ctx: t.Context(), recursive: true}
	node := func(p string) end { return end{"backend.ns", filepath.Join(there, p), guest} }
	here := func(p string) end { return end{path: p, files: hostFiles{}} }

	if err := c.copy(here(filepath.Join(src, "one")), node("renamed"), false); err != nil {
		t.Error(err)
	}
	if err := c.copy(here(src), node(""), true); err != nil { // into the directory
		t.Error(err)
	}
	put(t, filepath.Join(src, "one"), "2!", 0o600)
	if err := c.copy(here(src), node(""), false); err != nil { // over what is there
		t.Error(err)
	}
	want := "renamed 600 1 1\nsrc/one 600 2 2!\nsrc/sub/run 755 1048576 xxxxxxxx"
	if got := listing(t, there); got != want {
		t.Errorf("copied to the node:\n%s\nwant\n%s", got, want)
	}
	back := t.TempDir()
	if err := c.copy(node("src"), here(filepath.Join(back, "new")), false); err != nil {
		t.Error(err)
	}
	if got := listing(t, back); got != "new/one 600 2 2!\nnew/sub/run 755 1048576 xxxxxxxx" {
		t.Errorf("copied back:\n%s", got)
	}
}

func TestCopyMistakes(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "a", 0o600)
	put(t, filepath.Join(dir, "d/b"), "b", 0o600)
	if err := os.Symlink("nowhere", filepath.Join(dir, "d/link")); err != nil {
		t.Fatal(err)
	}
	guest := fileServer(t)
	at := func(p string) end { return end{"client.c", filepath.Join(dir, p), guest} }
	for name, c := range map[string]struct {
		from, to           string
		recursive, several bool
		want               string
	}{
		"missing":               {"x", "y", false, false, "Cannot copy"},
		"directory":             {"d", "y", false, false, "Cannot copy a directory"},
		"onto itself":           {"a", "a", false, false, "Cannot copy a file onto itself"},
		"several into a file":   {"a", "d/b", false, true, "Cannot copy into client.c:" + dir + "/d/b"},
		"several into nothing":  {"a", "new", false, true, "Cannot copy into client.c:" + dir + "/new"},
		"directory onto a file": {"d", "a", true, false, "Cannot copy into client.c:" + dir + "/a"},
		"no directory above":    {"a", "q/r", false, false, "Cannot copy"},
		"link to nowhere":       {"d", "y", true, false, "Cannot copy"},
	} {
		err := (&copying{ctx: t.Context(), recursive: c.recursive}).copy(at(c.from), at(c.to), c.several)
		var f *diag.Failure
		if !errors.As(err, &f) || f.Diagnostic.Summary != c.want || f.Diagnostic.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&copying{ctx: ctx}).copy(at("a"), at("z"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := transfer(ctx, at("a"), at("z"), 0o600); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "d/link")); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, dir); strings.Contains(got, ".lvslab-") || strings.Contains(got, "z") {
		t.Errorf("left behind: %s", got)
	}
}

func TestLineWriter(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	a, b := &lineWriter{to: &out, mu: &mu, prefix: "a: "}, &lineWriter{to: &out, mu: &mu, prefix: "b: "}
	for _, w := range []struct {
		to   *lineWriter
		text string
	}{{a, "on"}, {b, "x\ny\nz"}, {a, "e\n\ntwo"}, {b, ""}} {
		if n, err := w.to.Write([]byte(w.text)); n != len(w.text) || err != nil {
			t.Error(n, err)
		}
	}
	if err := errors.Join(a.finish(), b.finish(), b.finish()); err != nil {
		t.Error(err)
	}
	if want := "b: x\nb: y\na: one\na: \na: two\nb: z\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if _, err := a.Write(bytes.Repeat([]byte("l"), longestLine+1)); err != nil || len(a.rest) != 0 {
		t.Errorf("a line without end is kept: %d bytes, %v", len(a.rest), err)
	}
}
