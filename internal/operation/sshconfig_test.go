package operation

import "testing"

// OpenSSH takes no host with quotes in its name.
func TestNodesAsHosts(t *testing.T) {
	for node, host := range map[string]string{
		"director.lb":                      "director.lb",
		"backend.ns[0]":                    "backend.ns[0]",
		`backend.ns["large"]`:              "backend.ns[large]",
		`module.site["a"].backend.ns["b"]`: "module.site[a].backend.ns[b]",
	} {
		if got := sshName(node); got != host {
			t.Errorf("%s is called %s, want %s", node, got, host)
		}
	}
}
