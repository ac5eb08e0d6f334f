package lang

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestTextSource: a text is the source that a file with it would be, with the
// modules beside it.
func TestTextSource(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "2-farms.hcl")
	text := "module \"a\" {\n  source = \"./m\"\n}\n"
	for name, content := range map[string]string{path: text, filepath.Join(dir, "m", "m.hcl"): "network \"lan\" {}\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, ds := ReadSource(path)
	if ds.HasErrors() || len(want.Modules) != 1 {
		t.Fatalf("%v, %d modules", ds, len(want.Modules))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	got, ds := TextSource(path, []byte(text))
	if ds.HasErrors() || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", ds, got, want)
	}
	if _, ds := TextSource(path, []byte(strings.Repeat("#", maxFileBytes+1))); !ds.HasErrors() {
		t.Error("a text above the limit of files is taken")
	}
}
