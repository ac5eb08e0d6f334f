package ipvsmodel

import (
	"net/netip"
	"testing"
)

func TestFold(t *testing.T) {
	for in, want := range map[string]string{
		"198.18.0.101":         "198.18.0.101",
		"::1":                  "0.0.0.1",
		"fd00:18::65":          "253.0.0.125", // fd000018 and 00000065
		"fd00:18::1:0:1e":      "253.0.0.7",
		"2001:db8:1:2:3:4:5:6": "32.6.13.184",
	} {
		if got := Fold(netip.MustParseAddr(in)).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
