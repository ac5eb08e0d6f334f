package symptom

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
)

// VIP is what a VIP looks like before any query is sent on purpose: who says to have
// it, and what the director's table holds of it.
type VIP struct {
	Client, Director, Service addr.Noun
	Address                   netip.Addr
	Port                      uint16

	// Local says that a device of the director holds it; Devices says what they hold.
	Local   bool
	Devices string
	// OnLink says that the VIP is in the client's network, so that ARP finds it.
	// Answers are the machines that answered, Silent those that are known to be
	// there and did not answer an echo: of them nothing is known.
	OnLink  bool
	Answers []Owner
	Silent  []netip.Addr

	Table Table
}

// Owner is who answered ARP. Machine is zero when no machine of the lab has the MAC.
type Owner struct {
	MAC     string
	Machine addr.Noun
}

// String names the machine and its MAC.
func (o Owner) String() string {
	if o.Machine.IsZero() {
		return "no machine of the lab (" + o.MAC + ")"
	}
	return o.Machine.String() + " (" + o.MAC + ")"
}

// Table is what the connection table has of the service, templates left out.
type Table struct {
	Rows int
	// Counted is how many connections the service has counted since it was made.
	// Settled says that the estimator has caught up with all of them.
	Counted uint64
	Settled bool
	// Foreign are rows to real servers that the service has not.
	Foreign int
	Example string // one row
}

// old is how many entries are older than the service, at least: each entry that it
// made itself has been counted.
func (t Table) old() int {
	if !t.Settled || uint64(t.Rows) <= t.Counted {
		return 0
	}
	return t.Rows - int(t.Counted)
}

// Judge names what is wrong with the VIP.
func (v VIP) Judge() []Finding {
	var out []Finding
	director := false
	for _, o := range v.Answers {
		if o.Machine == v.Director {
			director = true
			continue
		}
		out = append(out, *v.thief(o))
	}
	switch {
	case v.Local && (director || !v.OnLink):
	case v.Local && len(v.Silent) == 0:
		out = append(out, *found(VIPSilent, v.Director, "The director does not answer ARP for the VIP",
			"Look at its arp_ignore and at the device that holds the VIP (lvslab exec "+v.Director.String()+" -- ip addr).",
			fmt.Sprintf("%s asked who has %s, %s. The director holds it: %s.", v.Client, v.Address, v.answered(), v.Devices)))
	case !v.Local && !director:
		out = append(out, *found(VIPNotLocal, v.Director, "The VIP is not local on the director",
			"Give the director's card "+v.Address.String()+" with prefix length 32: IPVS sees only what is delivered locally.",
			fmt.Sprintf("The director's devices hold %s. %s.", v.Devices, v.asked())))
	}
	if v.Table.old() > 0 {
		out = append(out, *v.stale())
	}
	return out
}

func (v VIP) thief(o Owner) *Finding {
	f := found(ARP, o.Machine, "Somebody else answers ARP for the VIP",
		"On every backend set net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2; then forget what the clients have learned (ip neigh flush all), so that queries go through the director.",
		fmt.Sprintf("%s asked who has %s, %s. Only the director %s should: what reaches another machine passes IPVS by.", v.Client, v.Address, v.answered(), v.Director))
	f.Address = o.String()
	if !o.Machine.IsZero() {
		f.Address = o.Machine.String()
	}
	return f
}

func (v VIP) asked() string {
	if !v.OnLink {
		return v.Address.String() + " is in no network of " + v.Client.String() + ", so ARP can't tell"
	}
	return fmt.Sprintf("%s asked who has %s, %s", v.Client, v.Address, v.answered())
}

func (v VIP) answered() string {
	if len(v.Answers) == 0 {
		return "and nobody answered"
	}
	var who []string
	for _, o := range v.Answers {
		who = append(who, o.String())
	}
	return "and there answered " + strings.Join(who, " and ")
}

func (v VIP) stale() *Finding {
	evidence := fmt.Sprintf("The table has %d entries of %s:%d, and %s has counted %d connections since it was made: %d or more are older than it.",
		v.Table.Rows, v.Address, v.Port, v.Service, v.Table.Counted, v.Table.old())
	if v.Table.Foreign > 0 {
		evidence += fmt.Sprintf(" %d of them lead to real servers that the service does not have.", v.Table.Foreign)
	}
	return found(StaleEntries, v.Director, "The connection table has entries older than the service",
		"Delete the service with net.ipv4.vs.expire_nodest_conn=1 (Linux 5.9 or newer), wait until /proc/net/ip_vs_conn is empty and make it again, as lvslab does before each run. Entries count as old, too, when the service's counters were zeroed (ipvsadm -Z).",
		evidence, "An entry is looked up before the service and keeps its port at its backend, whatever the service says now. One of them: "+v.Table.Example+".")
}
