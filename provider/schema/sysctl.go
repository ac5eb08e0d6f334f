package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// SysctlSchema is a set of kernel parameters of a guest.
var SysctlSchema = provider.Schema{Noun: "kernel settings", Attributes: map[string]provider.Attribute{
	"node":    node(),
	"values":  {Type: cty.Map(cty.String), Doc: "name with dots to value as the kernel prints it"},
	"boot_id": bootID(),
}}

// Sysctl mirrors [SysctlSchema].
type Sysctl struct {
	Node   string            `cty:"node"`
	Values map[string]string `cty:"values"`
	BootID string            `cty:"boot_id"`
}

// Value returns the canonical object.
func (s Sysctl) Value() cty.Value { return encode(SysctlSchema, s) }

// SysctlFrom reads an object.
func SysctlFrom(v cty.Value) (Sysctl, error) { return decode[Sysctl](TypeSysctl, v) }
