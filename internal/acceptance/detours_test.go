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

// TestAccDetours plants ways that answers alone do not betray, every query being answered
// by the right backend under the VIP, and faults after which there is no answer. The proof
// fails, names each of them, and says where the query or its answer was seen last.
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
		seen          string // what the machines saw; "" = the detour itself is the cause
		plant, remove [][2]string
	}{
		{"a tunnel in a tunnel", "Queries are encapsulated twice", "", [][2]string{
			{"backend.web[0]", `ip addr add 198.19.32.230/32 dev lo
				ip link add twice type ipip local 198.19.32.230 remote 198.19.32.10; ip link set twice up`},
			{"director.front", `ip neigh add 198.19.32.230 lladdr ` + mac + ` dev wire
				ip link add twice type ipip local 198.19.32.10 remote 198.19.32.230; ip link set twice up
				ip route add 198.19.32.30/32 dev twice src 198.19.32.10`},
		}, [][2]string{
			{"director.front", `ip link del twice; ip neigh del 198.19.32.230 dev wire`},
			{"backend.web[0]", `ip link del twice; ip addr del 198.19.32.230/32 dev lo`},
		}},
		{"the VIP is not local", "The query is lost inside the backend", "The query, in ipip, was last seen when backend.web[0] received it on wire", [][2]string{
			{"backend.web[0]", `set -- $(ip -o -4 addr show to 198.19.32.101); echo $2 >/run/had; ip route del local 198.19.32.101 dev $2 table local`},
		}, [][2]string{
			{"backend.web[0]", `ip route add local 198.19.32.101 dev $(cat /run/had) table local`},
		}},
		{"no way back", "The answer does not reach the client", "The query, in ipip, was last seen when backend.web[0] received it on wire", [][2]string{
			{"backend.web[0]", `ip route add unreachable default table 98; ip rule add from 198.19.32.101 lookup 98`},
		}, [][2]string{
			{"backend.web[0]", `ip rule del from 198.19.32.101 lookup 98; ip route flush table 98`},
		}},
		{"the answer goes elsewhere", "The answer does not reach the client", "The answer from 198.19.32.101 was last seen when backend.web[0] sent it on wire to 02:00:00:00:00:99", [][2]string{
			{"backend.web[0]", `ip neigh add 198.19.32.231 lladdr 02:00:00:00:00:99 dev wire; ip route add default via 198.19.32.231 dev wire table 98; ip rule add from 198.19.32.101 lookup 98`},
		}, [][2]string{
			{"backend.web[0]", `ip rule del from 198.19.32.101 lookup 98; ip route flush table 98; ip neigh del 198.19.32.231 dev wire`},
		}},
		{"queries go to a backend", "Somebody else answers ARP for the VIP", "The query to 198.19.32.101 went to backend.web[0] (" + mac + ") before the director had it (arp-theft)", [][2]string{
			{"client.probe", `ip neigh replace 198.19.32.101 lladdr ` + mac + ` dev wire nud permanent`},
		}, [][2]string{
			{"client.probe", `ip neigh del 198.19.32.101 dev wire`},
		}},
		{"back by the director", "Answers go back through the director", "", [][2]string{
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
		if r := s.must(1, 2*time.Minute, "run", "lab.hcl"); !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "backend.web[0]") ||
			!strings.Contains(strings.Join(strings.Fields(r.stderr), " "), c.seen) {
			t.Errorf("%s: want %q and %q in %s", c.name, c.want, c.seen, r)
		}
		for _, p := range c.remove {
			sh(p[0], p[1])
		}
	}
	s.must(0, 2*time.Minute, "run", "lab.hcl")
	s.must(0, time.Minute, "destroy", "--auto-approve")
}
