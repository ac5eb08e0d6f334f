package operation

import (
	"errors"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

func TestParallelFor(t *testing.T) {
	big := []lang.Machine{{Memory: 4 << 30}, {Memory: 256 << 20}}
	for _, c := range []struct {
		name     string
		cores    int
		free     uint64
		accel    hypervisor.Accelerator
		machines []lang.Machine
		want     int
	}{
		{"emulation", 2, 64 << 30, hypervisor.TCG, nil, 10},
		{"KVM", 2, 64 << 30, hypervisor.KVM, nil, 20},
		{"one core", 1, 64 << 30, hypervisor.TCG, nil, 5},
		{"many cores", 64, 640 << 30, hypervisor.KVM, nil, 64},
		{"little memory", 8, 1 << 30, hypervisor.KVM, nil, 2},
		{"room for three large ones", 8, 13 << 30, hypervisor.TCG, big, 3},
		{"no memory at all", 8, 1 << 20, hypervisor.TCG, nil, 2},
		{"memory not known", 8, 0, hypervisor.TCG, nil, 40},
	} {
		if got := parallelFor(c.cores, c.free, c.accel, c.machines); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// creating is an apply that creates n machines of 256 MiB, the last of which serves a zone.
func creating(n int, o Choices) *applying {
	a := &applying{Settings: &Settings{}, opts: ApplyOptions{Choices: o}, dir: "/lab", accel: hypervisor.TCG, accelWhy: "no /dev/kvm", study: &study{layout: &topo.Layout{}}, guests: []guestKind{{}}}
	a.study.topology = &lang.Topology{Provider: lang.Provider{URI: embeddedURI}}
	for i := range n {
		noun := addr.N(addr.Backend, "ns").At(addr.Index(i))
		m := lang.Machine{Noun: noun, Memory: 256 << 20}
		if i == n-1 {
			m.Serves = []addr.Noun{addr.N(addr.Zone, "z")}
		}
		a.study.topology.Machines = append(a.study.topology.Machines, m)
		d := schema.Domain{Address: noun.String(), Memory: m.Memory, VCPUs: 1}
		want := provider.Resource{Attrs: d.Value()}
		a.changes.Changes = append(a.changes.Changes, plan.Change{Type: schema.TypeDomain, Action: provider.Create, Want: &want})
	}
	return a
}

func TestDemand(t *testing.T) {
	if d := creating(0, Choices{}).demand(); d != nil {
		t.Errorf("nothing to do needs %+v", d)
	}
	cold := creating(4, Choices{Boot: BootCold, Parallelism: 3}).demand()
	cold.CoresHave = 2
	if cold.Memory < 4*256<<20 || cold.Cores != 4 || cold.How != "the image is built first, 4 booted" || cold.Parallelism != 3 {
		t.Errorf("%+v", cold)
	}
	warm := creating(4, Choices{}).demand()
	if warm.How != "the image is built first, 2 templates made first, 4 cloned" || warm.Seconds < imageSeconds+2*templateTCG {
		t.Errorf("%+v", warm)
	}
	text := cold.text()
	for _, want := range []string{"for 4 machines", "4 virtual, 3 at once", "by tcg: no /dev/kvm", "4 booted"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	foreign := creating(2, Choices{})
	foreign.study.topology.Provider.URI = "qemu:///system"
	if d := foreign.demand(); !strings.Contains(d.How, "2 cloned") {
		t.Errorf("clones on a foreign libvirt: %+v", d)
	}
	foreign.worldErr = errors.New("nobody answers")
	if d := foreign.demand(); !strings.Contains(d.How, "2 booted") {
		t.Errorf("clones on a libvirt that nobody knows: %+v", d)
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[uint64]string{5 << 20: "5 MiB", 1536 << 20: "1.5 GiB", 72 << 30: "72 GiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

func record(t *testing.T, address, within string) state.Resource {
	t.Helper()
	a, err := addr.ParseResource(address)
	if err != nil {
		t.Fatal(err)
	}
	r := state.Resource{Addr: a, Type: "x", Status: state.OK}
	if within != "" {
		if r.Within, err = addr.ParseResource(within); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestPickedFromTheState(t *testing.T) {
	var st state.State
	st.Lab = "lab"
	for _, r := range []state.Resource{
		record(t, "backend.ns[0]/domain", ""), record(t, "backend.ns[0]/sysctl", "backend.ns[0]/domain"),
		record(t, "backend.ns[1]/domain", ""), record(t, "tunnel.t/tunnel", "backend.ns[0]/domain"),
	} {
		st.Put(r)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "backend.ns[0]/domain backend.ns[0]/sysctl backend.ns[1]/domain tunnel.t/tunnel"},
		{[]string{"backend.ns"}, "backend.ns[0]/domain backend.ns[0]/sysctl backend.ns[1]/domain"},
		{[]string{"backend.ns[1]", "tunnel.t/tunnel"}, "backend.ns[1]/domain tunnel.t/tunnel"},
		{[]string{"backend.ns[2]"}, "error"}, {[]string{"backend.ns[0]/dns"}, "error"}, {[]string{"x"}, "error"}, {[]string{""}, "error"},
	} {
		picked, err := pick(st, c.args)
		var names []string
		for _, r := range picked {
			names = append(names, r.Addr.String())
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s (%v)", c.args, got, c.want, err)
		}
	}
	picked, err := pick(st, []string{"backend.ns[0]/domain"})
	if err != nil {
		t.Fatal(err)
	}
	if gone := withContents(st, picked); len(gone) != 3 || gone[2].String() != "tunnel.t/tunnel" {
		t.Errorf("goes with a machine: %v", gone)
	}
}
