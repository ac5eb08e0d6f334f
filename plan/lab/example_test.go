package lab_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/lvslab/lvslab/plan/lab"
)

// A kernel's scheduler in a test: boot the lab with the kernel that was built, make
// sure that it runs, measure, and demand each backend's share of the connections.
func ExampleStart() {
	_ = func(t *testing.T) { // func TestWRR(t *testing.T)
		l := lab.Start(t, "dns.hcl", lab.Var("kernel", "/src/linux"), lab.KeepFailed())

		out, err := l.Exec(t.Context(), "director.lb", "uname", "-r")
		if err != nil {
			t.Fatal(lab.Explain(err))
		}
		t.Logf("the director runs %s", out.Stdout)

		result, err := l.Run(t.Context())
		if err != nil {
			t.Fatal(lab.Explain(err))
		}
		if err := result.Err(); err != nil { // runs that are not valid, checks that failed
			t.Error(err)
		}
		want := map[string]int64{"backend.ns[0]": 6, "backend.ns[1]": 3, "backend.ns[2]": 3}
		for _, run := range result.Runs {
			for _, b := range run.Backends {
				if run.Treatment == "scheduler=wrr" && b.Conns != want[b.Name] {
					t.Errorf("%s has %d connections, want %d", b.Name, b.Conns, want[b.Name])
				}
			}
		}
	}
}

// A topology as text, with what is special to the test written into it.
func ExampleText() {
	_ = func(t *testing.T) {
		for _, scheduler := range []string{"rr", "sh"} {
			t.Run(scheduler, func(t *testing.T) {
				lab.Start(t, scheduler+".hcl", lab.Text(fmt.Sprintf(`
network "lan" { cidr = "198.18.0.0/24" }

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "www", type = "A", values = ["192.0.2.1"] }]
}

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = %q
  forward   = "direct"

  real_server { backends = backend.ns }
}
`, scheduler)))
			})
		}
	}
}

// A program that is no test: the lab is its own to take down, and outlives it when
// it does not.
func ExampleUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	l, err := lab.Up(ctx, "builtin:lvs-dr", lab.Output(os.Stderr), lab.LockTimeout(time.Minute))
	if err != nil {
		log.Print(lab.Explain(err))
	}
	if l != nil {
		defer l.Destroy(ctx)
	}
}
