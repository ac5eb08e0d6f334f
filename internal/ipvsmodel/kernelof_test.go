package ipvsmodel

import "testing"

// Debian's changelogs name the two versions with the change; others say nothing.
func TestKernelOf(t *testing.T) {
	for version, before := range map[string]bool{
		"6.1.186-1": true, "6.1.187-1": false, "6.1.192-3": false, "6.1.90-1~deb12u2": true,
		"6.12.104-1": true, "6.12.105-1": false, "6.12.117-1~deb12u1": false, "6.12.9-1": true,
		"6.9.7-1": false, "7.0-1": false, "": false, "6.1": false, "6.1.x-1": false,
	} {
		if got := KernelOf(version).Before2026; got != before {
			t.Errorf("%q: before 2026 is %v", version, got)
		}
	}
}
