package images

import (
	"os"
	"strings"
	"testing"
)

// TestExampleConfig: the options with which the example of a bisection builds
// kernels are those that a guest is asked for.
func TestExampleConfig(t *testing.T) {
	text, err := os.ReadFile("../examples/kernel-bisect/guest.config")
	if err != nil {
		t.Fatal(err)
	}
	wanted := append([]string{"IP_VS"}, bootOptions...)
	for _, option := range bootNeeds {
		wanted = append(wanted, strings.TrimPrefix(option, "CONFIG_"))
	}
	if lacks := unset(string(text), wanted); len(lacks) > 0 {
		t.Errorf("guest.config does not set %q", lacks)
	}
}
