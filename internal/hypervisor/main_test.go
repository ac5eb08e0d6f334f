package hypervisor

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	Main()
	if len(os.Args) == 3 && os.Args[1] == argStarter {
		os.Exit(starterMain(os.Args[2]))
	}
	os.Exit(runTests(m))
}

// testCache is the cache directory of all labs of one test run: they share what
// is known about QEMU.
var testCache string

func runTests(m *testing.M) int {
	var err error
	if testCache, err = os.MkdirTemp("", "lvslab-test-cache-"); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	defer os.RemoveAll(testCache)
	return m.Run()
}

// argStarter makes the test binary start a holder, print it and end, like a
// command whose lab stays.
const argStarter = "__starter"

func starterMain(options string) int {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h, err := Start(ctx, o)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return 1
	}
	return 0
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}
