package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// RouteSchema is a route of a guest's main table.
var RouteSchema = provider.Schema{Noun: "route", Claims: routeClaims, Attributes: map[string]provider.Attribute{
	"node":    node(),
	"to":      {Type: cty.String, Replace: true, Doc: "destination prefix"},
	"via":     {Type: cty.String, Doc: "gateway, empty for a route to a device"},
	"dev":     {Type: cty.String, Doc: "device, empty when the gateway decides"},
	"boot_id": bootID(),
}}

// Route mirrors [RouteSchema].
type Route struct {
	Node   string `cty:"node"`
	To     string `cty:"to"`
	Via    string `cty:"via"`
	Dev    string `cty:"dev"`
	BootID string `cty:"boot_id"`
}

// Value returns the canonical object.
func (r Route) Value() cty.Value { return encode(RouteSchema, r) }

// RouteFrom reads an object.
func RouteFrom(v cty.Value) (Route, error) { return decode[Route](TypeRoute, v) }
