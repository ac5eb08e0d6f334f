package hypervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMemAvailable(t *testing.T) {
	got, err := memAvailable("MemTotal:       24678916 kB\nMemAvailable:   23456789 kB\n")
	if err != nil || got != 23456789<<10 {
		t.Errorf("%d, %v", got, err)
	}
	for _, bad := range []string{"", "MemAvailable: x kB", "MemAvailable:"} {
		if _, err := memAvailable(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzMemAvailable(f *testing.F) {
	f.Add("MemTotal: 1 kB\nMemAvailable:   23456789 kB\n")
	f.Add("MemAvailable: -1 kB")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := memAvailable(text); err != nil && n != 0 {
			t.Errorf("%d with %v", n, err)
		}
	})
}

func TestEveryNeededProgramHasAPackage(t *testing.T) {
	for _, n := range needed {
		if packageOf[n.name] == "" {
			t.Errorf("%s: no package", n.name)
		}
	}
}

func TestDiskCheckTakesADirectoryThatIsNotThereYet(t *testing.T) {
	if c := checkDisk(filepath.Join(t.TempDir(), "a", "b"), 1); c.Level != OK {
		t.Errorf("%+v", c)
	}
	if c := checkDisk(t.TempDir(), 1<<62); c.Level != Fail || c.Remedy == "" {
		t.Errorf("%+v", c)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("a line that is long enough to fill the window\n", 4000) + "last but one\nlast\n\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := tail(f, 2); err != nil || got != "last but one\nlast" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := tail(f, 1_000_000); err != nil || len(got) > 64<<10 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{{"/var/x", "/var", true}, {"/var", "/var", true}, {"/various", "/var", false}, {"/a", "/", true}} {
		if got := below(c.path, c.dir); got != c.want {
			t.Errorf("below(%s, %s) = %v", c.path, c.dir, got)
		}
	}
}

func TestParseQEMUVersion(t *testing.T) {
	for text, want := range map[string]string{
		"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c)": "7.2.22", "QEMU emulator version 10.0.2": "10.0.2",
		"": "", "qemu: no": "", "version ": "",
	} {
		got, err := parseQEMUVersion(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
