package ipvsmodel

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var origin = regexp.MustCompile(`(?m)^# (measured: 6\.\d+\.\d+.*|derived: \S.*)$`)

// TestCases runs every case of testdata. Each says where its expectation
// comes from: a kernel that was measured, or its source.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 3 {
		t.Fatalf("cases: %v, %v", files, err)
	}
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+f.Name, func(t *testing.T) {
				if !origin.Match(f.Data) {
					t.Error(`the case does not say "# measured: KERNEL …" or "# derived: SOURCE"`)
				}
				s, err := ParseScript(strings.NewReader(string(archive.Comment) + string(f.Data)))
				if err != nil {
					t.Fatal(err)
				}
				wrong, err := s.Run()
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range wrong {
					t.Error(w)
				}
			})
		}
	}
}

// TestCasesCanFail: a runner that finds everything right would prove nothing.
func TestCasesCanFail(t *testing.T) {
	for _, text := range []string{
		"send udp 10.0.0.1:1 10.0.0.100:53 -> 3",
		"send udp 10.0.0.1:1 10.0.0.100:53\ntally 1=1",
		"rows 1",
		"send udp 10.0.0.1:1-9 10.0.0.100:53\nchances 3=1",
		"service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.5:53\nadd udp 10.0.0.100:53 10.0.0.6:53\nsend udp 10.0.0.1:1-999 10.0.0.100:53\nchances 10.0.0.5:53=1 10.0.0.6:53=2",
		"row udp 10.0.0.1:1 10.0.0.100:53 -> 3",
		"service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.5:53\ncounters udp 10.0.0.100:53 10.0.0.5:53 inactive=1",
	} {
		s, err := ParseScript(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := s.Run()
		if err != nil || len(wrong) == 0 {
			t.Errorf("%q: wrong %q, error %v, want a difference", text, wrong, err)
		}
	}
}

func TestBadScripts(t *testing.T) {
	for _, text := range []string{
		"-> 1", "fly", "wait", "wait soon", "send udp here 10.0.0.100:53", "send udp 10.0.0.1:5-3 10.0.0.100:53",
		"send icmp 10.0.0.1:1 10.0.0.100:53", "send udp 10.0.0.1:1 [::1]:53", "send udp 10.0.0.1:1 10.0.0.100:53 times=many",
		"send udp 10.0.0.1:1 10.0.0.100:53 times=9999999", "send udp 10.0.0.1:1 10.0.0.100:53 flags=psh",
		"service udp 10.0.0.100:53 best", "service udp [::1]:53 rr", "service udp 10.0.0.100:53 rr flags=sh",
		"service udp 10.0.0.100:53 rr colour=red", "edit udp 10.0.0.100:53 rr", "delete udp 10.0.0.100:53",
		"add udp 10.0.0.100:53 10.0.0.5:53", "service mark x rr", "sysctl drop_entry 1", "timeouts sctp=1s",
		"service mark 1 rr\nadd mark 1 10.0.0.5:53 weight=-1", "service mark 1 rr\nadd mark 1 10.0.0.5:53 upper=1 lower=2",
		"service mark 1 rr\nadd mark 1 10.0.0.5:53\nadd mark 1 10.0.0.5:53", "service mark 1 rr\nremove mark 1 10.0.0.5:53",
		"service mark 1 rr\nset mark 1 10.0.0.5:53", "service mark 1 rr\nadd mark 1 10.0.0.5:53 forward=pigeon",
	} {
		s, err := ParseScript(strings.NewReader(text))
		if err == nil {
			_, err = s.Run()
		}
		if !errors.Is(err, ErrScript) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v, want a bad line", text, err)
		}
	}
}

// FuzzScript: whatever the text, neither reading nor running panics.
func FuzzScript(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range files {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(string(archive.Comment) + string(file.Data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.Count(text, "times=") > 3 {
			return
		}
		if s, err := ParseScript(strings.NewReader(text)); err == nil {
			_, _ = s.Run()
		}
	})
}
