package images

import (
	"slices"
	"testing"
)

// TestWithServer: another name server is another image, and the usual one stays.
func TestWithServer(t *testing.T) {
	before := Debian12.Digest()
	if r, err := Debian12.WithServer(""); err != nil || r.Digest() != before {
		t.Errorf("BIND: %v, %v", r.Name, err)
	}
	six, err := ForKernel("linux-image-6.12-cloud-amd64")
	if err != nil {
		t.Fatal(err)
	}
	digests, ids := map[string]string{before: "the usual guest", six.Digest(): "another kernel"}, map[int]string{}
	for _, u := range Debian12.Users {
		ids[u.ID] = u.Name
	}
	for name := range servers {
		for _, base := range []Recipe{Debian12, six} {
			r, err := base.WithServer(name)
			if err != nil {
				t.Fatal(err)
			}
			if r.Name != base.Name+"+"+name || !slices.Contains(r.Packages, ServerPackage(name)) || slices.Contains(r.Packages, ServerPackage("")) {
				t.Errorf("%s: %q with %q", name, r.Name, r.Packages)
			}
			if other, dup := digests[r.Digest()]; dup {
				t.Errorf("%s has the digest of %s", r.Name, other)
			}
			digests[r.Digest()] = r.Name
			for _, p := range r.Prune {
				if merged(p) != p {
					t.Errorf("%s prunes %q, which in the merged layout is %q", name, p, merged(p))
				}
			}
			if _, err := r.uid(servers[name].user); err != nil {
				t.Error(err)
			}
		}
		if other, dup := ids[servers[name].uid]; dup {
			t.Errorf("%s and %s have the same number", name, other)
		}
		ids[servers[name].uid] = name
	}
	if Debian12.Digest() != before {
		t.Error("the recipe that all share was changed")
	}
	if _, err := Debian12.WithServer("dnsmasq"); err == nil {
		t.Error("an unknown server passed")
	}
}
