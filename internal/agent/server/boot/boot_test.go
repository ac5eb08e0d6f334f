package boot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRootDevice(t *testing.T) {
	for cmdline, want := range map[string]string{
		"console=ttyS0 quiet rdinit=/lvslab-agent\n": "/dev/vda",
		"quiet lvslab.root=/dev/sr0 panic=-1":        "/dev/sr0",
		"":                                           "/dev/vda",
	} {
		if got := rootDevice(cmdline); got != want {
			t.Errorf("%q: %s, want %s", cmdline, got, want)
		}
	}
}

func TestModuleList(t *testing.T) {
	dir := t.TempDir()
	if err := loadModules(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a kernel without modules: %v", err)
	}
	list := filepath.Join(dir, "modules")
	missing := filepath.Join(dir, "virtio.ko")
	if err := os.WriteFile(list, []byte("# comment\n\n"+missing+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var e *fs.PathError
	if err := loadModules(list); !errors.As(err, &e) || e.Path != missing {
		t.Errorf("a missing module: %v", err)
	}
}
