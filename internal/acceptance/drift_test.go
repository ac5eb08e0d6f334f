package acceptance

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/libvirt"
)

// pair is the small lab with two backends; pairs of texts are what is replaced in
// it, and by what.
func pair(lab, prefix string, edits ...string) string {
	edits = append([]string{"backend \"web\" {", "backend \"web\" {\n  count = 2"}, edits...)
	return strings.NewReplacer(edits...).Replace(small(lab, prefix, ""))
}

const (
	zonePath = "/run/named/zones/small.test.zone"
	rewrite  = "sed -i 's/192.0.2.7$/192.0.2.77/' " + zonePath
)

// loadAgain makes the named at an address read its files again and waits until
// its answer to a question has a mark: named does so some time after the signal.
func loadAgain(address, question, mark string) string {
	return "kill -HUP $(pidof named); for i in $(seq 100); do dig +time=1 +tries=1 @" + address + " " + question +
		" > /tmp/answer && grep -q '" + mark + "' /tmp/answer && break; [ $i -lt 100 ]; sleep 0.05; done"
}

// meddlings are changes behind lvslab's back inside guests, and how a plan calls
// each.
var meddlings = []struct{ name, node, script, says string }{
	{"a weight", "director.front", "ipvsadm -e -u @P.101:53 -r @P.30:53 -i -w 9", "destinations[0].weight: changed outside lvslab"},
	{"a scheduler", "director.front", "ipvsadm -E -u @P.101:53 -s sed", "scheduler: changed outside lvslab"},
	{"a timeout", "director.front", "ipvsadm --set 0 0 7", "timeouts.udp: changed outside lvslab"},
	{"the first real server removed", "director.front", "ipvsadm -d -u @P.101:53 -r @P.30:53", "services[0].destinations: changed outside lvslab"},
	{"the last real server removed", "director.front", "ipvsadm -d -u @P.101:53 -r @P.31:53", "the list is rebuilt"},
	{"the services flushed", "director.front", "ipvsadm -C", "service.s/ipvs will be created: changed outside lvslab: the virtual service has been deleted"},
	{"a parameter of IPVS", "director.front", "sysctl -qw net.ipv4.vs.expire_nodest_conn=1", `sysctl["net.ipv4.vs.expire_nodest_conn"]: changed outside lvslab`},
	{"a tunnel deleted", "backend.web[0]", "ip link del dev up", `tunnel.up["backend.web[0]"]/tunnel will be created: changed outside lvslab`},
	{"the VIP deleted", "backend.web[1]", "ip addr del @P.101/32 dev up", `addresses[0]: changed outside lvslab`},
	{"an address deleted", "client.probe", "ip addr flush dev wire", "addresses[0]: changed outside lvslab"},
	{"a device set down", "client.probe", "ip link set dev wire down", "client.probe/link.wire will be created: changed outside lvslab: the device has been set down"},
	{"an impairment", "client.probe", "tc qdisc replace dev wire root netem delay 5ms", "impair: changed outside lvslab"},
	{"a kernel parameter", "backend.web[1]", "sysctl -qw net.ipv4.conf.all.arp_ignore=0", `values["net.ipv4.conf.all.arp_ignore"]: changed outside lvslab`},
	{"a zone's file", "backend.web[0]", rewrite, `zones["small.test"]: changed outside lvslab`},
	{"a zone, loaded", "backend.web[0]", rewrite + "; " + loadAgain("@P.30", "n7.small.test", "192.0.2.77"), `zones["small.test"]: changed outside lvslab`},
	{"a zone, loaded, and its file put back", "backend.web[0]",
		"cd /tmp; cp " + zonePath + " was; sed -i '/SOA/s/ 1 / 2 /' " + zonePath + "; " + loadAgain("@P.30", "small.test SOA", " 2 ") + "; cp was " + zonePath,
		`zones["small.test"]: changed outside lvslab`},
	{"a zone's file deleted", "backend.web[0]", "rm " + zonePath, `zones["small.test"]: changed outside lvslab`},
	{"named.conf", "backend.web[0]", "echo '// so' >> /run/named/named.conf", "backend.web[0]/dns will be created: changed outside lvslab: named.conf has been rewritten"},
	{"a zone not served", "backend.web[1]", "cd /run/named; cp named.conf /tmp/was; sed -i '/small.test/d' named.conf; " + loadAgain("@P.31", "n7.small.test", "REFUSED") + "; cp /tmp/was named.conf",
		`zones["small.test"]: changed outside lvslab`},
	{"named killed", "backend.web[1]", "kill -9 $(pidof named)", "backend.web[1]/dns will be created: changed outside lvslab: named does not run"},
}

// TestAccDrift changes each kind of thing behind lvslab's back, in the guests and
// on the host: a plan finds it and says that it was somebody else, an apply brings
// it back, and nothing is left to do.
func TestAccDrift(t *testing.T) {
	const prefix = "198.19.31"
	s := newSite(t, pair("drifting", prefix))
	s.must(0, 4*time.Minute, "apply", "lab.hcl")
	repaired := func(name string) {
		t.Helper()
		s.must(0, 2*time.Minute, "apply", "--auto-approve", "lab.hcl")
		if r := s.run(time.Minute, "plan", "--detailed-exitcode", "lab.hcl"); r.code != 0 {
			t.Fatalf("%s was not repaired: %s", name, r)
		}
	}
	found := func(name string, says ...string) {
		t.Helper()
		r := s.run(time.Minute, "plan", "--detailed-exitcode", "lab.hcl")
		for _, x := range says {
			if r.code != 2 || !strings.Contains(r.stdout, x) || strings.Contains(r.stdout, "changed in the topology") {
				t.Errorf("%s, want %q: %s", name, x, r)
			}
		}
	}
	for _, m := range meddlings {
		if r := s.run(time.Minute, "exec", m.node, "--", "sh", "-ec", strings.ReplaceAll(m.script, "@P", prefix)); r.code != 0 {
			t.Fatalf("%s: %s", m.name, r)
		}
		found(m.name, m.says)
		repaired(m.name)
	}
	s.answers(prefix)

	s.killMachine(t, "backend-web-1")
	found("a machine killed", "backend.web[1]/domain will be created: virtual machine lvslab-",
		"backend.web[1]/dns will be created: gone with backend.web[1]/domain", "Plan: 5 to create, 0 to change, 0 to replace, 0 to delete")
	live := s.must(0, time.Minute, "graph", "--live", "lab.hcl").stdout
	for _, x := range []string{`"backend.web[1]" [label = "backend.web[1]\nvirtual machine lvslab-`, `"backend.web[0]" [color = "green"]`} {
		if !strings.Contains(live, x) {
			t.Errorf("no %s in\n%s", x, live)
		}
	}
	repaired("a machine killed")

	s.must(0, time.Minute, "exec", "backend.web[0]", "--", "sh", "-c", "(sleep 0.2; echo b > /proc/sysrq-trigger) >/dev/null 2>&1 &")
	console := filepath.Join(s.dir, ".lvslab", "drifting", "console", "backend.web%5B0%5D.log")
	poll(t, 2*time.Minute, "the machine does not boot", func() bool {
		text, _ := os.ReadFile(console)
		_, after, reset := strings.Cut(string(text), "sysrq: Resetting")
		return reset && strings.Contains(after, "ports open")
	})
	found("a machine that has booted", "backend.web[0]/dns will be created: gone with its boot")
	repaired("a machine that has booted")

	s.detachNIC(t, "-client-probe")
	found("a NIC detached", "client.probe/domain will be replaced", "nics[0]", "changed outside lvslab, cannot be changed in place")
	repaired("a NIC detached")
	s.answers(prefix)
}

// answers asks both backends through the VIP.
func (s *site) answers(prefix string) {
	s.t.Helper()
	for range 2 {
		r := s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@"+prefix+".101", "n7.small.test")
		if strings.TrimSpace(r.stdout) != "192.0.2.7" {
			s.t.Errorf("answer under the VIP: %s", r)
		}
	}
}

// killMachine kills the emulator of the machine with that end of its name, and
// waits until libvirt has heard of it by its monitor's end.
func (s *site) killMachine(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn := s.libvirt(ctx, t)
	defer conn.Close()
	kill(t, s, "guest=", name)
	poll(t, 20*time.Second, "libvirt does not hear of its machine's death", func() bool {
		lives := false
		err := conn.Do(ctx, 10*time.Second, func(l *rpc.Libvirt) error {
			doms, _, err := l.ConnectListAllDomains(1, rpc.ConnectListDomainsActive)
			for _, d := range doms {
				lives = lives || strings.HasSuffix(d.Name, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return !lives
	})
}

// libvirt connects to the libvirtd of the site's only lab.
func (s *site) libvirt(ctx context.Context, t *testing.T) *libvirt.Conn {
	t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(s.dir, ".lvslab", "*"))
	st, err := state.Read(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	holder, _, err := hypervisor.Find(ctx, st.Lineage)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := libvirt.Dial(ctx, holder.LibvirtSocket())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// detachNIC takes the first NIC out of the machine with that end of its name, and
// waits until the guest has let go of it.
func (s *site) detachNIC(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn := s.libvirt(ctx, t)
	defer conn.Close()
	detached := false
	nics := func(l *rpc.Libvirt) (left int, err error) {
		doms, _, err := l.ConnectListAllDomains(1, 0)
		for _, d := range doms {
			if err != nil || !strings.HasSuffix(d.Name, name) {
				continue
			}
			var text string
			if text, err = l.DomainGetXMLDesc(d, 0); err != nil {
				return 0, err
			}
			var def libvirtxml.Domain
			if err = def.Unmarshal(text); err != nil {
				return 0, err
			}
			left = len(def.Devices.Interfaces)
			if left > 0 && !detached {
				nic, merr := xml.Marshal(def.Devices.Interfaces[0])
				if merr != nil {
					return left, merr
				}
				err, detached = l.DomainDetachDeviceFlags(d, string(nic), uint32(rpc.DomainDeviceModifyLive)), true
			}
			return left, err
		}
		return 0, fmt.Errorf("no machine %s: %w", name, err)
	}
	poll(t, 15*time.Second, "the guest keeps its NIC", func() bool {
		left := 0
		if err := conn.Do(ctx, 10*time.Second, func(l *rpc.Libvirt) (err error) { left, err = nics(l); return err }); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}
