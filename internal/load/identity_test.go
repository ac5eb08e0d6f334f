package load

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestNSID(t *testing.T) {
	m := new(dns.Msg)
	if got := NSID(m); got != "" {
		t.Errorf("without EDNS: %q", got)
	}
	m.SetEdns0(1232, false)
	if got := NSID(m); got != "" {
		t.Errorf("without the option: %q", got)
	}
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte("backend.ns[0]"))}}
	b, err := m.Pack()
	if err != nil || m.Unpack(b) != nil {
		t.Fatal(err)
	}
	if got := NSID(m); got != "backend.ns[0]" {
		t.Errorf("%q", got)
	}
}

// TestSender: an identity that is a backend's goes before the MAC, another one does not.
func TestSender(t *testing.T) {
	m := newMatcher(MatchSpec{Nodes: map[string]string{"02:00:00:00:00:01": "router.r"}, Identities: map[string]string{"backend.ns[0]": "backend.ns[0]"}, Timeout: time.Second})
	answer := func(id string) *dns.Msg {
		a := new(dns.Msg)
		a.SetEdns0(1232, false)
		a.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte(id))}}
		return a
	}
	f := &frame{srcMAC: "02:00:00:00:00:01"}
	for id, want := range map[string]string{"backend.ns[0]": "backend.ns[0]", "somebody": "router.r", "": "router.r"} {
		if got := m.sender(f, answer(id)); got != want {
			t.Errorf("%q: %s", id, got)
		}
	}
	m.spec.Identities = nil
	if got := m.sender(f, answer("backend.ns[0]")); got != "router.r" {
		t.Errorf("not asked for: %s", got)
	}
}

func TestIdentify(t *testing.T) {
	d := DNSPerf{VIPs: []netip.Addr{vip}, Port: 53, Protocol: "udp", Questions: []Question{{"a.test.", "A"}}, Queries: 1, Sockets: 1, Timeout: time.Second}
	for identify, want := range map[bool]bool{true: true, false: false} {
		d.Identify = identify
		jobs, err := d.Jobs()
		if err != nil || strings.Contains(strings.Join(jobs[0].Args, " "), "-e -E 3:00") != want {
			t.Errorf("%v: %v %v", identify, jobs, err)
		}
	}
}
