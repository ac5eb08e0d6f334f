//go:build race

package state

import "flag"

// raced: the race detector makes everything ten times slower, and looks for what
// happens at any point. So crashes are only tried at the calls of the provider, one
// point in five, and a quarter of the random histories; make test tries them all
// without it.
const raced = true

func init() {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
