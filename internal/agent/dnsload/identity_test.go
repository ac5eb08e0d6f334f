package dnsload

import (
	"encoding/hex"
	"testing"

	"github.com/miekg/dns"
)

// TestIdentify: the servers say who they are when they are asked, and the record
// has it; one that does not say it is nobody.
func TestIdentify(t *testing.T) {
	script := func(n int, q *dns.Msg) []reply {
		a := right(q)
		if opt := q.IsEdns0(); opt != nil && len(opt.Option) == 1 && opt.Option[0].Option() == dns.EDNS0NSID && n != 1 {
			a.SetEdns0(1232, false)
			a.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte("backend.ns[0]"))}}
		}
		return []reply{{msg: a}}
	}
	for protocol, start := range map[string]func(*testing.T, func(int, *dns.Msg) []reply) *server{"udp": startUDP, "tcp": startTCP} {
		spec := start(t, script).spec(protocol, 3, 1)
		spec.Window, spec.Identify = 1, true
		_, record := run(t, spec)
		for n, want := range []string{"backend.ns[0]", "", "backend.ns[0]"} {
			if record[n].Backend != want {
				t.Errorf("%s: query %d is from %q, want %q", protocol, n+1, record[n].Backend, want)
			}
		}
	}
}
