package experiment

import (
	"net/netip"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

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

func vipStolen(c part, want hop, mac string, all *cast) error {
	thief, right := all.owner(mac), want.noun.String()
	if want.noun.Kind == addr.Director {
		right = "the director " + right
	}
	f := diag.Fail(nil, "Somebody else answers ARP for the VIP",
		"On every backend set net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2; then queries go through the director.",
		"%s has %s as the neighbour for %s. That is %s; %s is %s.", c.noun, mac, want.address, thief, right, want.mac)
	f.Diagnostic = f.Diagnostic.For(thief)
	return f
}

func unsteady(c part, vip netip.Addr, doubt error) error {
	f := diag.Fail(doubt, "The path to the backends is not steady",
		"Look for other traffic to the VIP and for packet loss; then apply again.",
		"%s got answers from each backend of %s alone, and in %d walks over all of them one was missing.", c.noun, vip, proofTries)
	f.Diagnostic = f.Diagnostic.For(c.noun.String())
	return f
}
