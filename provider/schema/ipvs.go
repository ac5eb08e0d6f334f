package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// IPVSSchema is one service of the topology on its director: a virtual service
// for each VIP, destinations in list order with the head first, and the
// parameters below net.ipv4.vs, which exist only once ip_vs is loaded and
// therefore belong here and not to the sysctl resource.
var IPVSSchema = provider.Schema{Noun: "virtual service", Claims: ipvsClaims, Attributes: map[string]provider.Attribute{
	"node":     node(),
	"services": {Type: cty.List(serviceType), Doc: "one for each VIP, or one by firewall mark"},
	"sysctl":   {Type: cty.Map(cty.String), Doc: "parameters below net.ipv4.vs"},
	"boot_id":  bootID(),
}}

var serviceType = cty.Object(map[string]cty.Type{
	"protocol": cty.String, "vip": cty.String, "port": cty.Number,
	"fwmark": cty.Number, "ipv6": cty.Bool,
	"scheduler": cty.String, "one_packet": cty.Bool, "flags": cty.List(cty.String),
	"persistence_s": cty.Number, "netmask": cty.Number,
	"timeouts": cty.Object(map[string]cty.Type{
		"tcp": cty.Number, "tcp_fin": cty.Number, "udp": cty.Number,
	}),
	"destinations": cty.List(cty.Object(map[string]cty.Type{
		"address": cty.String, "port": cty.Number, "forward": cty.String, "weight": cty.Number,
		"upper": cty.Number, "lower": cty.Number, "tunnel_type": cty.String, "tunnel_port": cty.Number,
		"tunnel_checksum": cty.String,
	})),
})

// IPVS mirrors [IPVSSchema].
type IPVS struct {
	Node     string            `cty:"node"`
	Services []IPVSService     `cty:"services"`
	Sysctl   map[string]string `cty:"sysctl"`
	BootID   string            `cty:"boot_id"`
}

// IPVSService is one virtual service: protocol, VIP and port, or a firewall
// mark and nothing of the three.
type IPVSService struct {
	Protocol     string            `cty:"protocol"` // udp or tcp
	VIP          string            `cty:"vip"`
	Port         uint16            `cty:"port"`
	FWMark       uint32            `cty:"fwmark"`
	IPv6         bool              `cty:"ipv6"` // of a service by firewall mark
	Scheduler    string            `cty:"scheduler"`
	OnePacket    bool              `cty:"one_packet"`
	Flags        []string          `cty:"flags"`         // sorted
	PersistenceS int               `cty:"persistence_s"` // seconds, 0 = none
	Netmask      int               `cty:"netmask"`       // prefix length, 0 without persistence
	Timeouts     IPVSTimeouts      `cty:"timeouts"`
	Destinations []IPVSDestination `cty:"destinations"`
}

// IPVSTimeouts are whole seconds of the director's network namespace; 0 = not
// ours to set.
type IPVSTimeouts struct {
	TCP    int `cty:"tcp"`
	TCPFin int `cty:"tcp_fin"`
	UDP    int `cty:"udp"`
}

// IPVSDestination is one real server.
type IPVSDestination struct {
	Address    string `cty:"address"`
	Port       uint16 `cty:"port"`
	Forward    string `cty:"forward"` // tunnel, direct or masquerade
	Weight     int    `cty:"weight"`
	Upper      int    `cty:"upper"`
	Lower      int    `cty:"lower"`
	TunnelType string `cty:"tunnel_type"` // ipip, gre or gue; "" unless it forwards by tunnel
	TunnelPort uint16 `cty:"tunnel_port"` // of gue
	// TunnelChecksum is full, remote (gue) or empty, which is none.
	TunnelChecksum string `cty:"tunnel_checksum"`
}

// Value returns the canonical object.
func (i IPVS) Value() cty.Value { return encode(IPVSSchema, i) }

// IPVSFrom reads an object.
func IPVSFrom(v cty.Value) (IPVS, error) { return decode[IPVS](TypeIPVS, v) }
