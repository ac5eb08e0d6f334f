package binary

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
)

func TestAgentNamedByTheEnvironment(t *testing.T) {
	if _, err := embedded.ReadFile(Name); err == nil {
		if b, err := Bytes(); err != nil || len(b) < 1<<20 || string(b[1:4]) != "ELF" {
			t.Errorf("the embedded agent: %d bytes, %v", len(b), err)
		}
		return // it comes before all others
	}
	t.Setenv(Variable, "")
	var f *diag.Failure
	if _, err := Bytes(); !errors.As(err, &f) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no agent anywhere: %v", err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	t.Setenv(Variable, path)
	if _, err := Bytes(); !errors.As(err, &f) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte("agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	if b, err := Bytes(); err != nil || string(b) != "agent" {
		t.Errorf("got %q, %v", b, err)
	}
}
