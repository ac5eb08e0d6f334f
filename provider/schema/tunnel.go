package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// TunnelSchema is a tunnel device with both ends named. The kernel cannot
// change type or ends of most tunnel devices, so those replace.
var TunnelSchema = provider.Schema{Noun: "tunnel device", Claims: tunnelClaims, Attributes: map[string]provider.Attribute{
	"node":      node(),
	"name":      {Type: cty.String, Replace: true, Doc: "device in the guest, at most 15 characters"},
	"type":      {Type: cty.String, Replace: true, Doc: "ipip, gre or gue"},
	"local":     {Type: cty.String, Replace: true, Doc: "outer address of this end"},
	"remote":    {Type: cty.String, Replace: true, Doc: "outer address of the other end"},
	"port":      {Type: cty.Number, Replace: true, Doc: "UDP port of gue, 0 for the others"},
	"checksum":  {Type: cty.String, Replace: true, Doc: "of what the other end sends: full, remote (gue), empty = none"},
	"addresses": {Type: cty.List(cty.String), Doc: "the virtual addresses that it receives for, as /32"},
	"mtu":       {Type: cty.Number, Computed: true, Doc: "bytes"},
	"boot_id":   bootID(),
}}

// Tunnel mirrors [TunnelSchema].
type Tunnel struct {
	Node      string   `cty:"node"`
	Name      string   `cty:"name"`
	Type      string   `cty:"type"`
	Local     string   `cty:"local"`
	Remote    string   `cty:"remote"`
	Port      int      `cty:"port"`
	Checksum  string   `cty:"checksum"`
	Addresses []string `cty:"addresses"`
	MTU       int      `cty:"mtu"`
	BootID    string   `cty:"boot_id"`
}

// Value returns the canonical object.
func (t Tunnel) Value() cty.Value { return encode(TunnelSchema, t) }

// TunnelFrom reads an object.
func TunnelFrom(v cty.Value) (Tunnel, error) { return decode[Tunnel](TypeTunnel, v) }
