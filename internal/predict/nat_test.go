package predict

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// natted puts the clients of a design behind a router that masquerades.
func natted(text, sysctl string) string {
	text = strings.Replace(text, "  nic { network = network.lan }", "  nic { network = network.home }", 1)
	return text + fmt.Sprintf(`
network "home" { cidr = "10.0.1.0/24" }

router "nat" {
  masquerade = network.lan
  sysctl     = { %s }
  nic { network = network.lan }
  nic { network = network.home }
}
`, sysctl)
}

// A group is one client for a scheduler that hashes addresses, and the flows in it
// are as many as without NAT.
func TestNAT(t *testing.T) {
	exp := `factor "scheduler" { values = ["sh", "mh", "rr"] }` + "\n" + load20
	for _, sysctl := range []string{"", `"net.netfilter.nf_conntrack_udp_timeout" = 30`} {
		want := Exact
		if sysctl != "" { // a flow may come back with another port
			want = Time
		}
		for _, c := range of(t, natted(design(4, 0, "", "", exp), sysctl)).Cells {
			used := 0
			for _, s := range c.Shares {
				if s.Queries > 0 {
					used++
				}
			}
			one := c.Treatment != "scheduler=rr"
			kind := want
			if !one && sysctl == "" {
				kind = Order
			}
			if c.Decisions != 80 || one && used != 1 || !one && used != 3 || c.Kind != kind || (c.Planned() != nil) != (kind == Exact) {
				t.Errorf("%s %q: %s, %d decisions, %d backends, planned %v", c.Treatment, sysctl, c.Kind, c.Decisions, used, c.Planned())
			}
		}
	}
	// One client alone behind its router shares its ports with nobody.
	if c := of(t, natted(design(1, 0, "", "", exp), `"net.netfilter.nf_conntrack_udp_timeout" = 30`)).Cells[0]; c.Kind != Exact {
		t.Errorf("alone: %s", c.Kind)
	}
}

// Ports that hash are known behind NAT, too, when no two clients of a group take one,
// as lvslab's own generator sees to; dnsperf's are not.
func TestPortsBehindNAT(t *testing.T) {
	factors := "factor \"flags\" { values = [[\"sh-port\"]] }\nfactor \"scheduler\" { values = [\"sh\"] }\n"
	text := natted(design(3, 0, "", "", factors+own("udp", 100)), "")
	top := topology(t, text)
	c := of(t, text).Cells[0]
	want, taken := map[string]int{}, map[uint16]bool{}
	tr, _ := experiment.Treatments(top, top.Experiments[0])
	for _, n := range top.Experiments[0].Clients {
		m, _ := top.Machine(n)
		ports, err := experiment.SourcePorts(top.Experiments[0], tr[0].Setting, m.Address(), 0, 1000)
		if err != nil || len(ports) != 1000 {
			t.Fatal(len(ports), err)
		}
		for _, p := range ports {
			if taken[p] {
				t.Fatalf("port %d is two clients'", p)
			}
			taken[p] = true
			want[fmt.Sprintf("backend.ns[%d]", ipvsmodel.Hash32(uint32(10<<24|1)+uint32(p), 8)%3)]++ // 10.0.0.1, the router
		}
	}
	if c.Kind != Exact || !cmp.Equal(c.Planned(), want) {
		t.Errorf("%s: planned %v, want %v", c.Kind, c.Planned(), want)
	}
	if c := of(t, natted(design(3, 0, "", "", factors+load20), "")).Cells[0]; c.Kind != Ports || c.Planned() != nil {
		t.Errorf("drawn ports: %s, %v", c.Kind, c.Planned())
	}
	many := strings.Replace(own("udp", 100), "1000", "9500", 1)
	if _, ds := experiment.Treatments(topology(t, natted(design(3, 0, "", "", many), "")), topology(t, natted(design(3, 0, "", "", many), "")).Experiments[0]); !strings.Contains(fmt.Sprint(ds), "3 client addresses are one behind their router and share its 28232 source ports, and each wants 9500") {
		t.Errorf("more ports than there are: %v", ds)
	}
}

// What a router loses on the way to the director is lost for the plan, too.
func TestLossyRouter(t *testing.T) {
	text := natted(design(1, 0, "", "", load20), "")
	text = strings.Replace(text, "  nic { network = network.lan }\n  nic { network = network.home }", "  nic {\n    network = network.lan\n    impair { loss = \"1%\" }\n  }\n  nic { network = network.home }", 1)
	if c := of(t, text).Cells[0]; c.Kind != Path || c.Planned() != nil {
		t.Errorf("%s, planned %v", c.Kind, c.Planned())
	}
}
