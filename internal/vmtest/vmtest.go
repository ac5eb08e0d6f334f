// Package vmtest is the gate before tests that boot real virtual machines: `make
// test` opens it with LVSLAB_ACC=1, a plain `go test` passes them over.
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
