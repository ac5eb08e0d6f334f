// Package outside is a module of its own: it stands for all that use lvslab's
// package lab from outside, and is one of the tests of it. MODE says how it ends.
package outside

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/plan/lab"
)

const one = `
lab "one" {}

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  nic { network = network.lan }
}
`

// TestMain fails when the embedded hypervisor's processes get as far as here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "__") {
		os.Exit(99)
	}
	os.Exit(m.Run())
}

// These are all names of the package, as others may declare them.
var (
	_ func(testing.TB, string, ...lab.Option) *lab.Lab                      = lab.Start
	_ func(context.Context, string, ...lab.Option) (*lab.Lab, error)        = lab.Up
	_ func(*lab.Lab, context.Context, string, ...string) (lab.Ended, error) = (*lab.Lab).Exec
	_ func(*lab.Lab, context.Context) (*lab.Result, error)                  = (*lab.Lab).Run
	_ func(*lab.Lab, context.Context) error                                 = (*lab.Lab).Destroy
	_ func(error) string                                                    = lab.Explain
	_                                                                       = []lab.Option{lab.Var("a", "b"), lab.VarFile("f"), lab.Results("d"), lab.Output(os.Stdout), lab.LockTimeout(time.Second), lab.KeepFailed(), lab.Text("")}
	_                                                                       = lab.Result{Dir: "", Checks: []lab.Check{{Name: "", Passed: true, Message: ""}}, Runs: []lab.Run{{Backends: []lab.Backend{{}}}}}
)

func TestBroken(t *testing.T) {
	_, err := lab.Up(t.Context(), "broken.hcl", lab.Text(`network "lan" { cidr = "nowhere" }`))
	if err == nil {
		t.Fatal("a broken topology came up")
	}
	t.Log(lab.Explain(err))
}

func TestLab(t *testing.T) {
	mode := os.Getenv("MODE")
	if mode == "" {
		t.Skip("boots a virtual machine when MODE is set")
	}
	var opts []lab.Option
	if mode == "keep" {
		opts = append(opts, lab.KeepFailed())
	}
	l := lab.Start(t, "one.hcl", append(opts, lab.Text(one))...)
	out, err := l.Exec(t.Context(), "client.c", "uname", "-s")
	if err != nil {
		t.Fatal(lab.Explain(err))
	}
	t.Logf("the guest runs %s", out.Stdout)
	switch mode {
	case "keep", "fail":
		t.FailNow()
	case "panic":
		panic("as asked")
	case "exit":
		os.Exit(7)
	case "slow":
		_, err := l.Exec(t.Context(), "client.c", "sleep", "1000")
		t.Fatal(lab.Explain(err))
	case "hang":
		select {}
	}
}
