package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lvslab/lvslab/internal/verify/studytest"
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
			examples, err := filepath.Abs("../../examples")
			e.Setenv("EXAMPLES", examples)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"study": sealStudy, "snippet": writeSnippet},
	})
}

// sealStudy is the scripts' command "study DIR [CHANGE…]": it seals a small result
// below DIR, changed before it was sealed.
func sealStudy(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: study DIR [CHANGE...]")
	}
	s, err := studytest.Load()
	ts.Check(err)
	added := false
	for _, change := range args[1:] {
		if shard, ok := strings.CutPrefix(change, "share="); ok {
			list := s.Shares(2)
			s = list[0]
			if shard == list[1].Manifest.Shard {
				s = list[1]
			}
			continue
		}
		switch change {
		case "kernel":
			s.Manifest.Versions.GuestKernel = "6.12.1"
		case "forged":
			s.Runs[0].AnswersOK--
		case "added": // the second block, to a sealed result that has the first
			added = true
		case "lossy":
			for i := range s.Runs {
				if r := &s.Runs[i]; r.TreatmentID == "scheduler=dh" {
					r.AnswersOK, r.Unanswered, r.BatchS = 12-r.Block, r.Block, nil
				}
			}
			s.Manifest.Versions.GuestKernel = "6.12.1"
		default:
			ts.Fatalf("study: no change %q", change)
		}
	}
	if added {
		_, s, err = s.Split(ts.MkAbs(args[0]), 1)
		ts.Check(err)
	}
	_, err = s.Seal(ts.MkAbs(args[0]))
	ts.Check(err)
}
