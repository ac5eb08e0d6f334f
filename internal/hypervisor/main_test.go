package hypervisor

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"
)

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
