package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// LinkSchema is a network device inside a guest with its addresses and the
// impairment of its egress. A device without a MAC is the loopback device,
// which keeps its own addresses and is never set down.
var LinkSchema = provider.Schema{Noun: "network card", Claims: linkClaims, Attributes: map[string]provider.Attribute{
	"node":      node(),
	"mac":       {Type: cty.String, Replace: true, Doc: "by which the card is found"},
	"name":      {Type: cty.String, Replace: true, Doc: "device in the guest, at most 15 characters"},
	"mtu":       {Type: cty.Number, Doc: "bytes"},
	"addresses": {Type: cty.List(cty.String), Doc: "prefixes, the first is the primary one"},
	"impair":    {Type: impairType, Doc: "what netem does on the egress"},
	"boot_id":   bootID(),
}}

var impairType = cty.Object(map[string]cty.Type{
	"delay_us": cty.Number, "jitter_us": cty.Number,
	"loss_ppm": cty.Number, "duplicate_ppm": cty.Number, "reorder_ppm": cty.Number,
	"rate_bits": cty.Number, "limit": cty.Number,
})

// Link mirrors [LinkSchema].
type Link struct {
	Node      string   `cty:"node"`
	MAC       string   `cty:"mac"`
	Name      string   `cty:"name"`
	MTU       int      `cty:"mtu"`
	Addresses []string `cty:"addresses"`
	Impair    *Impair  `cty:"impair"`
	BootID    string   `cty:"boot_id"`
}

// Impair is the impairment of a device's egress, one way; zero means none.
// Probabilities are parts per million: whole numbers survive JSON unchanged.
type Impair struct {
	DelayUS      int64 `cty:"delay_us"`
	JitterUS     int64 `cty:"jitter_us"`
	LossPPM      int64 `cty:"loss_ppm"`
	DuplicatePPM int64 `cty:"duplicate_ppm"`
	ReorderPPM   int64 `cty:"reorder_ppm"`
	RateBits     int64 `cty:"rate_bits"`
	Limit        int   `cty:"limit"` // packets in the queue, 0 = netem's default of 1000
}

// Value returns the canonical object.
func (l Link) Value() cty.Value { return encode(LinkSchema, l) }

// LinkFrom reads an object.
func LinkFrom(v cty.Value) (Link, error) { return decode[Link](TypeLink, v) }
