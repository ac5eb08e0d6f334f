package schema

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

func TestClaims(t *testing.T) {
	want := map[string][]string{
		TypeNetwork:    {"network lab-lan", "network uuid u", "bridge lv0"},
		TypeDomain:     {"domain n", "uuid u", "mac 52:54:00:00:00:01"},
		TypeLink:       {"device lan", "mac m"},
		TypeSysctl:     nil,
		TypeRoute:      {"route to 198.19.0.0/24"},
		TypeTunnel:     {"device t", "ipip tunnel from 198.18.0.20 to 198.18.0.30"},
		TypeDNS:        {"named"},
		TypeMark:       {"mark 7 on packets of IPv6"},
		TypeMasquerade: {"masquerading by lan"},
		TypeIPVS:       {"IPv6 firewall mark 1"},
	}
	for typ, v := range full() {
		s, _ := Of(typ)
		val, _ := convert(t, v)
		var got, none []string
		if s.Claims != nil {
			got, none = s.Claims(val), s.Claims(empty(s.Type()))
		}
		if d := cmp.Diff(want[typ], got); d != "" {
			t.Errorf("%s: %s", typ, d)
		}
		if len(none) > 0 && typ != TypeDNS {
			t.Errorf("%s: an object without attributes claims %v", typ, none)
		}
	}
	other := []IPVSService{{Protocol: "udp", VIP: "198.18.0.101", Port: 53}, {FWMark: 7}}
	got := IPVSSchema.Claims(IPVS{Services: other}.Value())
	if !slices.Equal(got, []string{"udp 198.18.0.101 port 53", "firewall mark 7"}) {
		t.Errorf("%q", got)
	}
}

// empty is an object of the type whose attributes are all null.
func empty(typ cty.Type) cty.Value {
	attrs := map[string]cty.Value{}
	for name, t := range typ.AttributeTypes() {
		attrs[name] = cty.NullVal(t)
	}
	return cty.ObjectVal(attrs)
}
