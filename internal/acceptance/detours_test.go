package acceptance

import (
	"strings"
	"testing"
	"time"
)

const oneRun = `
experiment "ports" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 5
  load "dnsperf" {
    queries = 30
    sockets = 3
  }
}
`

// TestAccDetours plants two ways that answers alone do not betray: every query is
// answered by the right backend under the VIP. The proof fails and names each of them.
func TestAccDetours(t *testing.T) {
	s := newSite(t, threeBackends("detours", "198.19.32", oneRun))
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	sh := func(node, script string) {
		t.Helper()
		s.must(0, time.Minute, "exec", node, "--", "sh", "-ec", script)
	}
	mac := strings.TrimSpace(s.must(0, time.Minute, "exec", "backend.web[0]", "--", "cat", "/sys/class/net/wire/address").stdout)
	for _, c := range []struct {
		name, want    string
		plant, remove [][2]string
	}{
		{"a tunnel in a tunnel", "Queries are encapsulated twice", [][2]string{
			{"backend.web[0]", `ip addr add 198.19.32.230/32 dev lo
				ip link add twice type ipip local 198.19.32.230 remote 198.19.32.10; ip link set twice up`},
			{"director.front", `ip neigh add 198.19.32.230 lladdr ` + mac + ` dev wire
				ip link add twice type ipip local 198.19.32.10 remote 198.19.32.230; ip link set twice up
				ip route add 198.19.32.30/32 dev twice src 198.19.32.10`},
		}, [][2]string{
			{"director.front", `ip link del twice; ip neigh del 198.19.32.230 dev wire`},
			{"backend.web[0]", `ip link del twice; ip addr del 198.19.32.230/32 dev lo`},
		}},
		{"back by the director", "Answers go back through the director", [][2]string{
			{"director.front", `echo 1 >/proc/sys/net/ipv4/conf/wire/accept_local; echo 1 >/proc/sys/net/ipv4/conf/wire/forwarding`},
			{"backend.web[0]", `ip route add 198.19.32.128/32 via 198.19.32.10 dev wire table 99; ip rule add from 198.19.32.101 lookup 99`},
		}, [][2]string{
			{"backend.web[0]", `ip rule del from 198.19.32.101 lookup 99; ip route flush table 99`},
			{"director.front", `echo 0 >/proc/sys/net/ipv4/conf/wire/accept_local; echo 0 >/proc/sys/net/ipv4/conf/wire/forwarding`},
		}},
	} {
		for _, p := range c.plant {
			sh(p[0], p[1])
		}
		if r := s.must(1, 2*time.Minute, "run", "lab.hcl"); !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "backend.web[0]") {
			t.Errorf("%s: want %q in %s", c.name, c.want, r)
		}
		for _, p := range c.remove {
			sh(p[0], p[1])
		}
	}
	s.must(0, 2*time.Minute, "run", "lab.hcl")
	s.must(0, time.Minute, "destroy", "--auto-approve")
}
