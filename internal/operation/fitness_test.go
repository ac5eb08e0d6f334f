package operation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]struct {
		need uint64
		want error
	}{
		dir:                           {1, nil},
		filepath.Join(dir, "a/b/c"):   {1, nil},
		file:                          {1, syscall.ENOTDIR},
		filepath.Join(file, "sub"):    {1, syscall.ENOTDIR},
		filepath.Join(dir, "too/big"): {1 << 62, syscall.ENOSPC},
	} {
		err := writable("the results", path, c.need, "Go elsewhere.")
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", path, err, c.want)
		}
		if err == nil {
			continue
		}
		if d := diag.From(err)[0]; d.Remedy == "" || !strings.Contains(d.Summary, "the results") || !strings.Contains(d.Detail, dir) {
			t.Errorf("%s: %+v", path, d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("looking has made %v", left)
	}
}

func TestMemoryFor(t *testing.T) {
	machines := []lang.Machine{
		{Noun: addr.N(addr.Client, "c"), Memory: 256 << 20},
		{Noun: addr.N(addr.Backend, "big"), Memory: 2 << 30},
	}
	if err := memoryFor(machines, 4<<30, false); err != nil {
		t.Error(err)
	}
	if err := memoryFor(nil, 0, false); err != nil {
		t.Errorf("nothing to start: %v", err)
	}
	for limited, want := range map[bool]string{false: "this machine has 1024 MiB", true: "the limit of this control group are 1024 MiB"} {
		d := diag.From(memoryFor(machines, 1<<30, limited))
		if len(d) != 1 || d[0].Address != "backend.big" || !strings.Contains(d[0].Detail, want) || !strings.Contains(d[0].Detail, "backend.big with 2048 MiB") {
			t.Errorf("%+v", d)
		}
	}
}
