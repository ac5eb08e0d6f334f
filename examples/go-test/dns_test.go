package dnslab

import (
	"os"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/plan/lab"
)

// TestAccDNS boots dns.hcl, looks at the director's kernel, asks through the virtual
// address, and demands of round robin, by the answers and by the kernel's own count,
// that each backend has its share.
//
//	LVSLAB_ACC=1 go test -v -run TestAccDNS ./examples/go-test
//	LVSLAB_ACC=1 KERNEL=/src/linux go test -v -run TestAccDNS ./examples/go-test
//	LVSLAB_ACC=1 VARS=/src/mine.lvslab.vars go test -v -run TestAccDNS ./examples/go-test
//
// The second takes the kernel of a tree, the third all variables from a file.
func TestAccDNS(t *testing.T) {
	if os.Getenv("LVSLAB_ACC") == "" {
		t.Skip("set LVSLAB_ACC=1: boots five virtual machines")
	}
	var opts []lab.Option
	if kernel := os.Getenv("KERNEL"); kernel != "" {
		opts = append(opts, lab.Var("kernel", kernel))
	}
	if file := os.Getenv("VARS"); file != "" {
		opts = append(opts, lab.VarFile(file))
	}
	l := lab.Start(t, "dns.hcl", opts...)

	release := run(t, l, "director.lb", "uname", "-r")
	table := run(t, l, "director.lb", "cat", "/proc/net/ip_vs")
	t.Logf("Linux %s with this table:\n%s", release, table)
	if got := run(t, l, "client.c", "dig", "+short", "@198.18.0.101", "host7.lab.test"); got != "192.0.2.7" {
		t.Errorf("the answer is %q", got)
	}

	result, err := l.Run(t.Context())
	if err != nil {
		t.Fatal(lab.Explain(err))
	}
	if err := result.Err(); err != nil {
		t.Error(err)
	}
	if len(result.Runs) != 2 {
		t.Fatalf("%d runs, want one of each scheduler", len(result.Runs))
	}
	// Connections of twelve, by the weights 2, 1 and 1. Each carries ten queries.
	want := map[string]map[string]int64{
		"scheduler=rr":  {"backend.ns[0]": 4, "backend.ns[1]": 4, "backend.ns[2]": 4},
		"scheduler=wrr": {"backend.ns[0]": 6, "backend.ns[1]": 3, "backend.ns[2]": 3},
	}
	for _, r := range result.Runs {
		for _, b := range r.Backends {
			if conns := want[r.Treatment][b.Name]; b.Conns != conns || b.Answered != int(10*conns) {
				t.Errorf("%s: %s answered %d queries over %d connections, want %d over %d",
					r.Treatment, b.Name, b.Answered, b.Conns, 10*conns, conns)
			}
		}
	}
}

// run runs a command on a machine of the lab and returns what it printed.
func run(t *testing.T, l *lab.Lab, machine string, argv ...string) string {
	t.Helper()
	out, err := l.Exec(t.Context(), machine, argv...)
	if err != nil {
		t.Fatal(lab.Explain(err))
	}
	if err := out.Err(); err != nil {
		t.Fatalf("%s on %s: %v", argv[0], machine, err)
	}
	return strings.TrimSpace(string(out.Stdout))
}
