package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// DNSSchema is an authoritative name server with its zones and its identity.
var DNSSchema = provider.Schema{Noun: "name server", Claims: dnsClaims, Attributes: map[string]provider.Attribute{
	"node":      node(),
	"server":    {Type: cty.String, Doc: "nsd, knot or unbound, empty for BIND"},
	"server_id": {Type: cty.String, Doc: "answer to id.server, hostname.bind and NSID"},
	"zones":     {Type: cty.Map(cty.String), Doc: "zone name without final dot to the text of its master file"},
	"listen":    {Type: cty.List(cty.String), Doc: "addresses that must answer"},
	"version":   {Type: cty.String, Computed: true, Doc: "version of the name server"},
	"boot_id":   bootID(),
}}

// DNS mirrors [DNSSchema].
type DNS struct {
	Node     string            `cty:"node"`
	Server   string            `cty:"server"`
	ServerID string            `cty:"server_id"`
	Zones    map[string]string `cty:"zones"`
	Listen   []string          `cty:"listen"`
	Version  string            `cty:"version"`
	BootID   string            `cty:"boot_id"`
}

// Value returns the canonical object.
func (d DNS) Value() cty.Value { return encode(DNSSchema, d) }

// DNSFrom reads an object.
func DNSFrom(v cty.Value) (DNS, error) { return decode[DNS](TypeDNS, v) }
