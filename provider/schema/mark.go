package schema

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// MarkSchema is the mark that a director puts on the packets of a service by
// firewall mark, before IPVS looks for their service.
var MarkSchema = provider.Schema{Noun: "packet mark", Claims: markClaims, Attributes: map[string]provider.Attribute{
	"node":    node(),
	"mark":    {Type: cty.Number, Replace: true, Doc: "the mark, not 0"},
	"ipv6":    {Type: cty.Bool, Replace: true, Doc: "on packets of IPv6"},
	"targets": {Type: cty.List(cty.String), Doc: "what gets it: udp 198.18.0.101:53"},
	"boot_id": bootID(),
}}

// Mark mirrors [MarkSchema].
type Mark struct {
	Node    string   `cty:"node"`
	Mark    uint32   `cty:"mark"`
	IPv6    bool     `cty:"ipv6"`
	Targets []string `cty:"targets"` // protocol, address and port
	BootID  string   `cty:"boot_id"`
}

// Value returns the canonical object.
func (m Mark) Value() cty.Value { return encode(MarkSchema, m) }

// MarkFrom reads an object.
func MarkFrom(v cty.Value) (Mark, error) { return decode[Mark](TypeMark, v) }

func markClaims(v cty.Value) []string {
	m, err := MarkFrom(v)
	if err != nil || m.Mark == 0 {
		return nil
	}
	family := "IPv4"
	if m.IPv6 {
		family = "IPv6"
	}
	return []string{fmt.Sprintf("mark %d on packets of %s", m.Mark, family)}
}
