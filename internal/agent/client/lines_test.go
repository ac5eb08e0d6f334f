package client

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	if got := LastLines(path, 5); got != nil {
		t.Errorf("no file gives %q", got)
	}
	text := strings.Repeat("old line\r\n", 5000) + "\x1b[0;1;39mone\x1b[0m\r\n\r\n\x1bM\r\x1b[Ktwo\x00\n[ 1.0] three"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := LastLines(path, 3); !slices.Equal(got, []string{"one", "two", "[ 1.0] three"}) {
		t.Errorf("got %q", got)
	}
	if got := LastLines(path, 50); len(got) != 50 {
		t.Errorf("%d lines", len(got))
	}
	if got := Lines(path); len(got) != 5003 {
		t.Errorf("%d lines in all", len(got))
	}
}

// A console that shows that nothing will come any more is given up early, one that
// does not, is not.
func TestBootThatIsOver(t *testing.T) {
	key, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	spec := DialSpec{Node: "client.c", Open: never, ClientKey: key.Private, HostKey: key.Public}
	over := func(lines []string) bool { return slices.Contains(lines, "vm login:") }
	for text, want := range map[string]string{"a\nvm login: ": "nothing on its console for 200ms", "a\nb\n": "time is up"} {
		path := filepath.Join(t.TempDir(), "console")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := WaitReady(ctx, spec, Console{Path: path, Quiet: time.Minute, Over: over, OverQuiet: 200 * time.Millisecond})
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
