package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lvslab": func() { os.Exit(run(os.Args[1:])) },
	})
}

// TestScripts runs the command lines of testdata/script as a user would. None
// of them boots a machine: see internal/acceptance for those that do.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("LVSLAB_CACHE", e.WorkDir+"/cache")
			e.Setenv("LVSLAB_REGISTRY", e.WorkDir+"/registry")
			e.Setenv("NO_COLOR", "1")
			return nil
		},
	})
}
