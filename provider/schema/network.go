package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// NetworkSchema is an isolated layer-2 segment on the host: a bridge without
// addresses.
var NetworkSchema = provider.Schema{Noun: "network", Claims: networkClaims, Attributes: map[string]provider.Attribute{
	"name":    {Type: cty.String, Replace: true, Doc: "name on the hypervisor"},
	"uuid":    {Type: cty.String, Replace: true, Doc: "identity on the hypervisor"},
	"bridge":  {Type: cty.String, Replace: true, Doc: "bridge device, at most 15 characters"},
	"address": {Type: cty.String, Replace: true, Doc: "address in the topology, part of the ownership mark"},
	"lineage": {Type: cty.String, Replace: true, Doc: "lab that owns it, part of the ownership mark"},
	"mtu":     {Type: cty.Number, Replace: true, Doc: "bytes"},
}}

// Network mirrors [NetworkSchema].
type Network struct {
	Name    string `cty:"name"`
	UUID    string `cty:"uuid"`
	Bridge  string `cty:"bridge"`
	Address string `cty:"address"`
	Lineage string `cty:"lineage"`
	MTU     int    `cty:"mtu"`
}

// Value returns the canonical object.
func (n Network) Value() cty.Value { return encode(NetworkSchema, n) }

// NetworkFrom reads an object.
func NetworkFrom(v cty.Value) (Network, error) { return decode[Network](TypeNetwork, v) }
