package server

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// ruleset is what nft 1.0.6 lists of two marks, of a rule that somebody has put
// in between, and of a table of somebody else.
const ruleset = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
{"table": {"family": "ip", "name": "lvslab", "handle": 1}},
{"chain": {"family": "ip", "table": "lvslab", "name": "mark7", "handle": 1, "type": "filter", "hook": "prerouting", "prio": -150, "policy": "accept"}},
{"rule": {"family": "ip", "table": "lvslab", "chain": "mark7", "handle": 2, "expr": [
 {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": "198.18.0.101"}},
 {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 53}},
 {"counter": {"packets": 12, "bytes": 800}}, {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 7}}]}},
{"rule": {"family": "ip", "table": "lvslab", "chain": "mark7", "handle": 3, "expr": [
 {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "1.2.3.4"}}, {"drop": null}]}},
{"rule": {"family": "ip", "table": "lvslab", "chain": "mark7", "handle": 4, "expr": [
 {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": {"prefix": {"addr": "198.18.0.0", "len": 24}}}},
 {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 53}},
 {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 7}}]}},
{"rule": {"family": "ip", "table": "other", "chain": "mark7", "handle": 9, "expr": [{"drop": null}]}},
{"chain": {"family": "ip", "table": "lvslab", "name": "mark70", "handle": 1}},
{"chain": {"family": "ip6", "table": "lvslab", "name": "mark7", "handle": 1}},
{"rule": {"family": "ip6", "table": "lvslab", "chain": "mark7", "handle": 2, "expr": [
 {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "daddr"}}, "right": "fd00::5"}},
 {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 53}},
 {"counter": {"packets": 0, "bytes": 0}}, {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 7}}]}}]}`

func TestMarked(t *testing.T) {
	four := []proto.MarkTarget{{Protocol: "udp", At: netip.MustParseAddrPort("198.18.0.101:53"), Packets: 12}, {}, {}}
	for _, c := range []struct {
		ref   proto.MarkRef
		want  []proto.MarkTarget
		found bool
	}{
		{proto.MarkRef{Mark: 7}, four, true},
		{proto.MarkRef{Mark: 7, IPv6: true}, []proto.MarkTarget{{Protocol: "tcp", At: netip.MustParseAddrPort("[fd00::5]:53")}}, true},
		{proto.MarkRef{Mark: 70}, nil, true},
		{proto.MarkRef{Mark: 8}, nil, false},
	} {
		got, found, err := marked([]byte(ruleset), c.ref)
		if d := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.AddrPort{})); d != "" || found != c.found || err != nil {
			t.Errorf("%+v: %v, %v, %s", c.ref, found, err, d)
		}
	}
	if _, _, err := marked([]byte("{"), proto.MarkRef{Mark: 7}); err == nil {
		t.Error("half a listing is read")
	}
}

// The mark of a rule is the chain's: another one is somebody's.
func TestMarkOfAnother(t *testing.T) {
	got, _, err := marked([]byte(strings.ReplaceAll(ruleset, `"value": 7`, `"value": 8`)), proto.MarkRef{Mark: 7})
	if err != nil || got[0].Protocol != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMarkScript(t *testing.T) {
	spec := proto.MarkSpec{MarkRef: proto.MarkRef{Mark: 7, IPv6: true}, Targets: []proto.MarkTarget{{Protocol: "udp", At: netip.MustParseAddrPort("[fd00::5]:53")}}}
	const want = "add rule ip6 lvslab mark7 ip6 daddr fd00::5 udp dport 53 counter meta mark set 7\n"
	if got := markScript(spec); !strings.HasSuffix(got, want) || !strings.Contains(got, "flush chain ip6 lvslab mark7\n") {
		t.Error(got)
	}
	for _, bad := range []proto.MarkSpec{
		{Targets: spec.Targets}, {MarkRef: proto.MarkRef{Mark: 7}, Targets: spec.Targets},
		{MarkRef: spec.MarkRef, Targets: []proto.MarkTarget{{At: spec.Targets[0].At}}},
	} {
		if _, err := markApply(t.Context(), bad); err == nil || !strings.Contains(fmt.Sprint(err), "mark") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
