package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// sixInFour carries queries over IPv6 in IPv4 to one backend by sit and to the other
// by GRE.
const sixInFour = `
lab "six-in-four" {}

network "old" { cidr = "198.19.70.0/24" }
network "new" { cidr = "fd00:1970::/64" }

client "probe" {
  nic { network = network.new }
}

director "front" {
  nic { network = network.new }
  nic { network = network.old }
}

backend "web" {
  count  = 2
  serves = [zone.z]
  nic { network = network.old }
  nic { network = network.new }
}

tunnel "up" {
  count = 2
  from  = director.front
  to    = backend.web[count.index]
  type  = ["ipip", "gre"][count.index]
}

service "s" {
  director  = director.front
  vip       = "fd00:1970::101"
  scheduler = "rr"
  real_server {
    backends = backend.web
    tunnel   = tunnel.up
  }
}
`

// fourInSix carries queries over IPv4 in IPv6 though the ends reach each other over
// IPv4 too, by the router on which the answers go back.
const fourInSix = `
lab "four-in-six" {}

network "front" { cidr = "198.19.71.0/25" }
network "back" { cidr = "198.19.72.0/24" }
network "core" { cidr = "fd00:1971::/64" }

client "probe" {
  nic { network = network.front }
}

router "r" {
  nic { network = network.front }
  nic { network = network.back }
}

director "front" {
  nic { network = network.front }
  nic { network = network.core }
}

backend "web" {
  count  = 2
  serves = [zone.z]
  nic { network = network.core }
  nic { network = network.back }
}

tunnel "up" {
  family = "ipv6"
  from = director.front
  to   = backend.web
}

service "s" {
  director  = director.front
  vip       = "198.19.71.101"
  scheduler = "rr"
  real_server {
    backends = backend.web
    tunnel   = tunnel.up
  }
}
`

// twelvePorts is the study of both.
const twelvePorts = `
zone "z" {
  name    = "small.test"
  records = [for i in range(20) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }]
}

experiment "ports" {
  service    = service.s
  clients    = client.probe
  iterations = 1
  seed       = 5
  load "dnsperf" {
    queries = 120
    sockets = 12
  }
}
`

// TestAccLongFamilies sends a study through tunnels whose outer header is of the other
// family than what is inside, and sees both on the wire.
func TestAccLongFamilies(t *testing.T) {
	vmtest.NeedLong(t)
	for _, c := range []struct {
		lab, topology, vip, network, from string
		seen                              []string // by each backend
	}{
		{"six-in-four", sixInFour, "fd00:1970::101", "old", "198.19.70.10", []string{
			"198.19.70.10 > 198.19.70.30: fd00:1970::80.", "198.19.70.10 > 198.19.70.31: GREv0"}},
		{"four-in-six", fourInSix, "198.19.71.101", "core", "fd00:1971::a", []string{
			"fd00:1971::a > fd00:1971::1e: 198.19.71.64.", "fd00:1971::a > fd00:1971::1f: 198.19.71.64."}},
	} {
		t.Run(c.lab, func(t *testing.T) {
			s := newSite(t, c.topology+twelvePorts)
			s.must(0, 3*time.Minute, "apply", "--keep", "lab.hcl")
			result := s.latest(c.lab)
			for _, r := range result.Runs() {
				if !r.Valid || r.AnswersOK != 120 || r.KernelDiffers != "" {
					t.Errorf("valid %v, %d answers, %s", r.Valid, r.AnswersOK, r.KernelDiffers)
				}
			}
			for _, b := range result.Backends() {
				if b.AnswersOK != 60 || b.TunnelRxPackets == nil || *b.TunnelRxPackets != 60 {
					t.Errorf("want 60 through the tunnel: %+v", b)
				}
			}
			for i, want := range c.seen {
				backend := []string{"backend.web[0]", "backend.web[1]"}[i]
				cmd, out, errOut := s.start("capture", backend, "-i", c.network, "-c", "1", "--", "src "+c.from+" and (proto 41 or proto 47 or ip6 proto 4 or ip6 proto 60)")
				errOut.await(t, "listening on", time.Minute)
				s.must(0, time.Minute, "exec", "client.probe", "--", "sh", "-c", "for i in 1 2 3; do dig +short +time=5 @"+c.vip+" n7.small.test; done")
				if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), want) {
					t.Errorf("%s: %v: %s%s", backend, err, out, errOut)
				}
			}
			if c.lab == "six-in-four" { // a receiver that asks for routers asks the director
				const asks = "for d in $(ip -o link show up type gre | cut -d: -f2 | cut -d@ -f1); do cat /proc/sys/net/ipv6/conf/$d/router_solicitations; done"
				if r := s.must(0, time.Minute, "exec", "backend.web[1]", "--", "sh", "-c", asks); strings.TrimSpace(r.stdout) != "0" {
					t.Errorf("the receiver of GRE asks for routers: %s", r)
				}
			}
			s.must(0, time.Minute, "destroy", "--auto-approve")
		})
	}
}
