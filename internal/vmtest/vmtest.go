// Package vmtest is the gate before tests that boot real virtual machines: `make
// test` opens it with LVSLAB_ACC=1, a plain `go test` passes them over. A second
// gate, LVSLAB_LONG=1 of `make test-long`, is before those that take minutes.
package vmtest

import (
	"os"
	"testing"
)

// Need skips a test that boots machines unless such tests are asked for.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv("LVSLAB_ACC") == "" {
		t.Skip("set LVSLAB_ACC=1: boots real VMs")
	}
}

// NeedLong skips a test that boots machines for minutes unless such tests are
// asked for: `make test` runs one of each kind, `make test-long` all of them.
func NeedLong(t testing.TB) {
	t.Helper()
	Need(t)
	if os.Getenv("LVSLAB_LONG") == "" {
		t.Skip("set LVSLAB_LONG=1: boots real VMs for minutes")
	}
}
