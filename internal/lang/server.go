package lang

import "fmt"

// defaultServer is what answers when nobody names another; it is "" in a Machine.
const defaultServer = "bind"

// servers are the name servers that a backend may have.
var servers = []string{defaultServer, "nsd", "knot", "unbound"}

// server reads the name server of a backend.
func (r *reader) server() string {
	if s := r.oneOf("server", defaultServer, servers...); s != defaultServer {
		return s
	}
	return ""
}

// maxIdentity is the longest address that nsd and unbound can tell as theirs: they
// take it from the host name (__NEW_UTS_LEN of the kernel, the ending zero in it).
const maxIdentity = 63

// server checks what one backend answers with.
func (r *rules) server(m Machine) {
	switch {
	case m.Server == "":
	case len(m.Serves) == 0 && !r.d.arg(m.Noun, "serves"):
		r.fail(m.Noun, "server", m.Range, "Name server without a zone", fmt.Sprintf("Add serves = [zone.NAME] to %s, or leave server out.", m.Noun.Block()),
			"server of %s is %q, but it serves no zone.", m.Noun, m.Server)
	case m.Server != "knot" && len(m.Noun.String()) > maxIdentity:
		r.fail(m.Noun, "server", m.Range, "Address too long for the name server", `Give the backend a shorter label or key, or use server = "bind" or "knot".`,
			"%s tells who it is by its host name, which holds %d characters; %s has %d.", m.Server, maxIdentity, m.Noun, len(m.Noun.String()))
	}
}
