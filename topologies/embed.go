// Package topologies holds the ready topologies that are built into lvslab and
// are used as builtin:NAME.
package topologies

import (
	"embed"
	"path"
	"slices"
	"strings"
)

//go:embed *.hcl
var files embed.FS

// Get returns the text of a builtin topology, and whether there is one of that name.
func Get(name string) ([]byte, bool) {
	if name == "" || strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	b, err := files.ReadFile(name + ".hcl")
	return b, err == nil
}

// Names lists the builtin topologies in alphabetical order.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // the directory is part of the binary
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	slices.Sort(out) // the files' order is that of the names with their extension
	return out
}
