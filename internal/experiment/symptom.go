package experiment

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// symptom names cause and remedy of a query that a backend did not answer. The
// order of the cases is the query's way: what it did not reach explains why
// nothing after it happened.
func (ev evidence) symptom(cause error) error {
	fail := func(at addr.Noun, summary, remedy, why string) error {
		f := diag.Fail(cause, summary, remedy, "%s %s", ev.facts(), strings.TrimSuffix(why, ".")) // the cause follows
		f.Diagnostic = f.Diagnostic.For(at.String())
		return f
	}
	switch {
	case ev.scheduled == 0 && ev.refused:
		return fail(ev.director, "The director refuses queries",
			"Look at the service (lvslab exec "+ev.director.String()+" -- ipvsadm -Ln) and at the kernel's log for \"no destination available\".",
			"The query reached the director, which has no service for it or nobody to schedule.")
	case ev.scheduled == 0:
		return fail(ev.director, "The director does not schedule queries",
			"Check that the VIP is local there (lvslab exec "+ev.director.String()+" -- ip route get "+ev.vip.String()+") and that nothing filters its port.",
			"IPVS sees only what is delivered locally: the VIP is not on the director, or the service has another protocol or port.")
	case ev.tunnelled && ev.arrived == 0 && ev.refused:
		return fail(ev.backend, "The backend has no receiver for the tunnel",
			"Check the tunnel device on the backend: it must be up, with the backend's address as local and the director's as remote end.",
			fmt.Sprintf("The device is %s.", ev.tunnelText()))
	case ev.tunnelled && ev.arrived == 0:
		return fail(ev.backend, "Packets are lost between director and backend",
			"Check that the backend is reachable from the director and that nothing filters the tunnel's protocol (IPIP is IP protocol 4).",
			fmt.Sprintf("IPVS sent the packet into the tunnel, and it did not come out. The device is %s.", ev.tunnelText()))
	case ev.requests == 0 && ev.rpFiltered > 0:
		return fail(ev.backend, "Reverse path filtering drops what comes out of the tunnel",
			"Set net.ipv4.conf.all.rp_filter and that of the tunnel device to 0: the larger of the two counts.",
			fmt.Sprintf("%s rose by %d.", rpFilterCounter, ev.rpFiltered))
	case ev.requests == 0 && ev.tunnelled && !slices.ContainsFunc(ev.tunnel.Addresses, func(p netip.Prefix) bool { return p.Addr() == ev.vip }):
		return fail(ev.backend, "The backend does not hold the VIP",
			"Give the tunnel device the VIP with prefix length 32.",
			fmt.Sprintf("The packet arrived, and its destination is not local. The device is %s.", ev.tunnelText()))
	case ev.requests == 0 && !slices.Contains(ev.named.Listen, ev.vip):
		return fail(ev.backend, "named does not listen on the VIP",
			"Start named after the VIP is there, or let it scan its interfaces (automatic-interface-scan yes).",
			fmt.Sprintf("It listens on %v.", ev.named.Listen))
	case ev.requests == 0:
		return fail(ev.backend, "The query is lost inside the backend",
			"Capture on the backend: lvslab exec "+ev.backend.String()+" -- tcpdump -ni any port 53.",
			"It arrived, and named never saw it.")
	}
	return fail(ev.backend, "The answer does not reach the client",
		"Check the backend's route to the client, and that no anti-spoofing filter drops frames whose source is the VIP.",
		"named took the query; an answer goes straight from the backend to the client, with the VIP as its source.")
}

func (ev evidence) tunnelText() string {
	t := ev.tunnel
	if t.Name == "" {
		return "missing"
	}
	state := "down"
	if t.Up {
		state = "up"
	}
	text := fmt.Sprintf("%s (%s, local %s, remote %s, addresses %v)", t.Name, state, t.Local, t.Remote, t.Addresses)
	if t.FallbackUp {
		text += ", and the fallback device is up, which hides a wrong end"
	}
	return text
}

// notReady is the failure of a lab whose machines do not meet the conditions
// of a proof or a run.
func notReady(words []string) error {
	return diag.Fail(nil, "The lab is not ready to be measured",
		"Look at the machines named (lvslab exec, lvslab logs), or run lvslab apply again to repair what drifted.",
		"%s.", strings.Join(words, "; "))
}

func vipSilent(c part, vip netip.Addr, director addr.Noun, cause error) error {
	f := diag.Fail(cause, "Nobody answers for the VIP",
		"Give the director's card the VIP with prefix length 32: it must answer ARP for it.",
		"%s sent echo requests to %s and got no answer; %s should have answered", c.noun, vip, director)
	f.Diagnostic = f.Diagnostic.For(director.String())
	return f
}

func vipStolen(c part, vip netip.Addr, mac string, all *cast) error {
	thief := all.owner(mac)
	f := diag.Fail(nil, "Somebody else answers ARP for the VIP",
		"On every backend set net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2; then queries go through the director.",
		"%s has %s as the neighbour for %s. That is %s; the director %s is %s.", c.noun, mac, vip, thief, all.director.noun, all.director.mac)
	f.Diagnostic = f.Diagnostic.For(thief)
	return f
}

func wrongSource(want addr.Noun, vip, source netip.Addr) error {
	f := diag.Fail(nil, "An answer has the wrong source address",
		"Let the server open a socket for each address, as BIND does: it must answer from the address that was asked.",
		"The answer of %s to a query for %s came from %s; a careful client ignores it.", want, vip, source)
	f.Diagnostic = f.Diagnostic.For(want.String())
	return f
}

func wrongRcode(want addr.Noun, vip netip.Addr, rcode string) error {
	f := diag.Fail(nil, "A backend answers with an error",
		"Look at its log: lvslab logs "+want.String()+".", "%s answers %s under %s.", want, rcode, vip)
	f.Diagnostic = f.Diagnostic.For(want.String())
	return f
}

func wrongBackend(want addr.Noun, vip netip.Addr, got string) error {
	f := diag.Fail(nil, "Another backend answers",
		"Check the ends of both backends' tunnels and the addresses of the real servers.",
		"A query for %s that was sent to %s was answered by %s.", vip, want, got)
	f.Diagnostic = f.Diagnostic.For(want.String())
	return f
}

func unsteady(c part, vip netip.Addr, doubt error) error {
	f := diag.Fail(doubt, "The path to the backends is not steady",
		"Look for other traffic to the VIP and for packet loss; then apply again.",
		"%s got answers from each backend of %s alone, and in %d walks over all of them one was missing.", c.noun, vip, proofTries)
	f.Diagnostic = f.Diagnostic.For(c.noun.String())
	return f
}
