package operation

import "testing"

// TestInputNames: where the files of a topology and of its modules are kept in
// the artifact.
func TestInputNames(t *testing.T) {
	for _, c := range []struct{ root, name, want string }{
		{".", "lab.hcl", "lab.hcl"}, {"x/lab", "x/lab/main.hcl", "main.hcl"}, {"x/lab", "x/lab/modules/a/main.hcl", "modules/a/main.hcl"},
		{"x/lab", "x/shared/main.hcl", "up/shared/main.hcl"}, {"", "builtin:lvs-tun-dns", "lvs-tun-dns.hcl"}, {"/a", "/a/b.hcl", "b.hcl"},
	} {
		if got := inputName(c.root, c.name); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.name, c.root, got, c.want)
		}
	}
}
