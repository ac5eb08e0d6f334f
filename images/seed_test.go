package images

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// What cloud-init looks for is on the seed, byte for byte, and a second call
// makes nothing.
func TestSeed(t *testing.T) {
	cache := t.TempDir()
	agent := bytes.Repeat([]byte("agent "), 4<<10)
	sum := sha256.Sum256(agent)
	path, err := Seed(t.Context(), agent, cache)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil || path != SeedPath(sum, cache) {
		t.Fatalf("%s: %v", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	iso, err := iso9660.Read(file.New(f, true), before.Size(), 0, seedBlock)
	if err != nil {
		t.Fatal(err)
	}
	if label := strings.TrimRight(iso.Label(), " \x00"); label != seedLabel {
		t.Errorf("label %q", label)
	}
	want := map[string]string{seedAgent: string(agent)}
	for _, name := range []string{"meta-data", "user-data", "network-config", "start-agent"} {
		text, err := seedFiles.ReadFile("nocloud/" + name)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = string(text)
	}
	for name, text := range want {
		in, err := iso.OpenFile("/"+name, os.O_RDONLY)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(in)
		if err != nil || string(got) != text {
			t.Errorf("%s has %d bytes, want %d: %v", name, len(got), len(text), err)
		}
	}
	again, err := Seed(t.Context(), agent, cache)
	if err != nil || again != path {
		t.Fatalf("%s: %v", again, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("made again: %v", err)
	}
	if SeedPath(sha256.Sum256(nil), cache) == path {
		t.Error("another agent has the same seed")
	}
}
