package lang

import "strings"

// OnlyVariables keeps the LVSLAB_VAR_… of an environment: what a saved plan
// may remember of it.
func OnlyVariables(environ []string) []string {
	var out []string
	for _, e := range environ {
		if strings.HasPrefix(e, EnvPrefix) {
			out = append(out, e)
		}
	}
	return out
}
