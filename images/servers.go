package images

import (
	"slices"

	"github.com/lvslab/lvslab/internal/diag"
)

// bindPackage is the package of the name server that guests have by default.
const bindPackage = "bind9"

// server is what a guest with another name server has in the place of BIND: the
// package, the account that it drops to, dependencies that it runs without, and
// what its package brings in vain.
type server struct {
	pkg, user      string
	uid            int
	without, prune []string
}

// servers are those of Debian 12, by the name that a topology gives them. unbound
// is linked with Python for modules that no configuration here loads.
var servers = map[string]server{
	"nsd":  {pkg: "nsd", user: "nsd", uid: 103, without: []string{"openssl"}, prune: []string{"etc/nsd/"}},
	"knot": {pkg: "knot", user: "knot", uid: 104, prune: []string{"etc/knot/"}},
	"unbound": {pkg: "unbound", user: "unbound", uid: 105, without: []string{"media-types"}, prune: []string{
		"etc/unbound/", "etc/resolvconf/", "usr/lib/resolvconf/", "usr/share/munin/", "usr/lib/python3.11/", "usr/lib/python3/", "usr/libexec/unbound-helper",
		"usr/share/python3/", "etc/python3.11/",
	}},
}

// ServerPackage is the Debian package of a name server, "" being BIND.
func ServerPackage(name string) string {
	if s, ok := servers[name]; ok {
		return s.pkg
	}
	return bindPackage
}

// WithServer returns the recipe of the same guest with nsd, knot or unbound in
// the place of BIND; "" gives the recipe itself. Each has a digest of its own,
// and so an image.
func (r Recipe) WithServer(name string) (Recipe, error) {
	if name == "" {
		return r, nil
	}
	s, ok := servers[name]
	if !ok {
		return Recipe{}, diag.Fail(nil, "Not a name server", "Write nsd, knot or unbound, or nothing for BIND.", "%q is none that a guest can have", name)
	}
	r.Name += "+" + name
	r.Packages = slices.Clone(r.Packages)
	r.Packages[slices.Index(r.Packages, bindPackage)] = s.pkg
	r.Without = slices.Concat(r.Without, s.without)
	r.Prune = slices.Concat(r.Prune, s.prune)
	r.Users = append(slices.Clone(r.Users), User{Name: s.user, ID: s.uid, Home: "/run/" + s.user, Shell: "/usr/bin/nologin"})
	return r, nil
}
