package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// MasqueradeSchema is the translation of what a router sends on by a device.
var MasqueradeSchema = provider.Schema{Noun: "masquerading", Claims: masqueradeClaims, Attributes: map[string]provider.Attribute{
	"node":    node(),
	"dev":     {Type: cty.String, Replace: true, Doc: "device whose address packets get that leave by it"},
	"other":   {Type: cty.Bool, Doc: "rules of somebody else are beside the one that masquerades"},
	"boot_id": bootID(),
}}

// Masquerade mirrors [MasqueradeSchema].
type Masquerade struct {
	Node   string `cty:"node"`
	Dev    string `cty:"dev"`
	Other  bool   `cty:"other"`
	BootID string `cty:"boot_id"`
}

// Value returns the canonical object.
func (m Masquerade) Value() cty.Value { return encode(MasqueradeSchema, m) }

// MasqueradeFrom reads an object.
func MasqueradeFrom(v cty.Value) (Masquerade, error) { return decode[Masquerade](TypeMasquerade, v) }

func masqueradeClaims(v cty.Value) []string {
	m, err := MasqueradeFrom(v)
	if err != nil {
		return nil
	}
	return claimed("masquerading by", m.Dev)
}
