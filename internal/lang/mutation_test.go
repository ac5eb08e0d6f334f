package lang_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/lang"
)

// pool are right-hand sides that fit nowhere or everywhere.
var pool = []string{
	`null`, `true`, `0`, `-1`, `1.5`, `1e400`, `""`, `"x"`, `"300s"`, `"198.18.0.7"`, `"198.18.0.0/24"`, `[]`, `{}`, `[null]`, `{ a = null }`,
	`"${null}"`, `backend.ns`, `backend.ns[0]`, `backend.ns[*].address`, `[backend.ns]`, `{ x = backend.ns }`, `toset(backend.ns)`,
	`{ for b in backend.ns : b.id => b }`, `toset(["a", "b"])`, `director.lb`, `director.lb.address`, `director.lb["(handle)"]`,
	`[for k, v in director.lb : v]`, `jsonencode(director.lb)`, `tostring(director.lb)`, `format("%v", director.lb)`, `sort(backend.ns[*].id)`,
	`network.lan`, `network.lan.cidr`, `zone.lab`, `zone.lab.records`, `tunnel.lb-ns`, `values(tunnel.lb-ns)`, `service.dns`, `service.dns.vip`,
	`service.dns.port`, `service.dns.scheduler`, `client.c`, `client.c[count.index]`, `count.index`, `each.key`, `each.value`, `experiment.x`,
	`experiment.x.shares`, `experiment.x.shares["a"]["b"]`, `experiment.x.flags`, `length(client.c)`, `length(backend.ns)`, `cidrhost(network.lan.cidr, 50)`,
	`cidrhost("::/0", 1)`, `cidrsubnet("10.0.0.0/8", 24, 1)`, `range(5)`, `range(2000)`, `try(backend.ns[7], null)`, `can(director.lb.foo)`,
	`var.nothing`, `local.nothing`, `merge(director.lb, { id = "z" })`, `director.lb == backend.ns[0]`, `true ? director.lb : null`,
	`true ? backend.ns[0] : client.c[0]`, `flatten([backend.ns, [backend.ns[0]]])`, `setproduct(backend.ns, client.c)`, `zipmap(["a"], [director.lb])`,
	`coalesce(null, director.lb)`, `reverse(backend.ns)`, `slice(backend.ns, 0, 1)`, `distinct(concat(backend.ns, backend.ns))`, `one(backend.ns)`,
	`lookup(tunnel.lb-ns, "a", null)`, `element(backend.ns, 5)`, `index(backend.ns, backend.ns[1])`, `["rr", "sh"]`, `[[1, 2, 3]]`, `[[0, 0, 0], [1, 2]]`,
	`{ udp = "1s", tcp = null }`, `[{ name = "a", type = "A", values = ["1.2.3.4"] }]`, `[{}]`, `"A\nB"`, `"ä"`, `lab`, `lab.name`, `999999999999999999999`,
	`sum([])`, `max()`, `regex("(", "x")`, `substr("abc", 5, -9)`, `pow(10, 400)`, `log(0, 0)`, `parseint("zz", 99)`, `csvdecode("a\n1")`, `jsondecode("[")`,
}

// TestMutations replaces, drops and doubles lines of a right topology. Unlike
// random bytes, most results parse, so that this reaches the evaluation.
func TestMutations(t *testing.T) {
	extra := `
locals {
  a = 1
  b = local.a
}
check "c" {
  assert {
    condition     = experiment.x.unanswered == 0
    error_message = "lost"
  }
}
output "o" {
  value = service.dns.vips
}
`
	example, err := os.ReadFile(filepath.Join("..", "..", "topologies", "lvs-tun-dns.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	sources := []string{lab + extra, string(example)}
	rapid.Check(t, func(t *rapid.T) {
		lines := strings.Split(rapid.SampledFrom(sources).Draw(t, "source"), "\n")
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
			left, _, isArg := strings.Cut(lines[i], " = ")
			switch what := rapid.IntRange(0, 9).Draw(t, "change"); {
			case what == 0:
				lines[i] = ""
			case what == 1:
				lines = append(lines[:i+1], lines[i:]...)
			case isArg:
				end := ""
				if strings.Contains(left, "{") && strings.HasSuffix(strings.TrimSpace(lines[i]), "}") {
					end = " }"
				}
				lines[i] = left + " = " + rapid.SampledFrom(pool).Draw(t, "value") + end
			case strings.Contains(lines[i], "{") && !strings.Contains(lines[i], "}"):
				name := rapid.SampledFrom([]string{"count", "for_each", "depends_on", "memory", "vips", "sysctl", "fwmark"}).Draw(t, "name")
				lines[i] += "\n  " + name + " = " + rapid.SampledFrom(pool).Draw(t, "value")
			}
		}
		hcl := strings.Join(lines, "\n")
		defer func() {
			if p := recover(); p != nil {
				t.Fatalf("panic: %v\n%s", p, hcl)
			}
		}()
		throughRapid(t, hcl)
	})
}

func throughRapid(t *rapid.T, hcl string) {
	src := lang.Source{Files: []lang.File{{Name: "m.hcl", Bytes: []byte(hcl)}}, Name: "m"}
	if bad := check(src); bad != "" {
		t.Fatalf("%s\n%s", bad, hcl)
	}
}
