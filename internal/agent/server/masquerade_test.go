package server

import (
	"fmt"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func natRuleText(chain, expr string) string {
	return fmt.Sprintf(`{"rule": {"family": "ip", "table": "lvslab_nat", "chain": %q, "handle": 2, "expr": [%s]}}`, chain, expr)
}

// What nft 1.0.6 lists of a rule that masquerades, and of what somebody did to it.
func TestMasqueraded(t *testing.T) {
	const counter, masquerade = `{"counter": {"packets": 5, "bytes": 400}}`, `{"masquerade": null}`
	match := func(dev string) string {
		return fmt.Sprintf(`{"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": %q}}`, dev)
	}
	ours := natRuleText("by_lan", match("lan")+","+counter+","+masquerade)
	for _, c := range []struct {
		name, rules  string
		found, other bool
	}{
		{"ours", ours, true, false},
		{"none", `{"chain": {"family": "ip", "table": "lvslab_nat", "name": "by_lan"}}`, false, false},
		{"another device", natRuleText("by_lan", match("wan")+","+counter+","+masquerade), false, true},
		{"another chain", natRuleText("by_wan", match("lan")+","+counter+","+masquerade), false, false},
		{"accepted before", natRuleText("by_lan", match("lan")+","+counter+`,{"accept": null}`) + "," + ours, true, true},
		{"twice", ours + "," + ours, true, true},
	} {
		got, found, err := masqueraded([]byte(`{"nftables": [{"metainfo": {}}, `+c.rules+`]}`), proto.MasqueradeRef{Dev: "lan"})
		if err != nil || found != c.found || got.Other != c.other || found && got.Flows != 5 {
			t.Errorf("%s: %+v, %v, %v", c.name, got, found, err)
		}
	}
	if _, _, err := masqueraded([]byte("{"), proto.MasqueradeRef{Dev: "lan"}); err == nil {
		t.Error("half a listing is read")
	}
}
