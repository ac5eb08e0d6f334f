package schema

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/provider"
)

// DomainSchema is a virtual machine. Domains are transient, so every change
// replaces: there is no stored definition that could be edited.
var DomainSchema = provider.Schema{Noun: "virtual machine", Claims: domainClaims, Attributes: map[string]provider.Attribute{
	"name":        {Type: cty.String, Replace: true, Doc: "name on the hypervisor"},
	"uuid":        {Type: cty.String, Replace: true, Doc: "identity on the hypervisor"},
	"address":     {Type: cty.String, Replace: true, Doc: "address in the topology, part of the ownership mark"},
	"lineage":     {Type: cty.String, Replace: true, Doc: "lab that owns it, part of the ownership mark"},
	"memory":      {Type: cty.Number, Replace: true, Doc: "bytes"},
	"vcpus":       {Type: cty.Number, Replace: true, Doc: "virtual processors"},
	"kernel":      {Type: cty.String, Replace: true, Host: true, Doc: "path of the kernel"},
	"initrd":      {Type: cty.String, Replace: true, Host: true, Doc: "path of the initramfs with the agent"},
	"cmdline":     {Type: cty.String, Replace: true, Host: true, Doc: "kernel command line"},
	"root":        {Type: cty.String, Replace: true, Host: true, Doc: "path of the read-only root image"},
	"disk":        {Type: cty.String, Replace: true, Host: true, Doc: "path of the disk image that it boots instead, never written to"},
	"disk_format": {Type: cty.String, Replace: true, Host: true, Doc: "qcow2 or raw"},
	"disk_sum":    {Type: cty.String, Replace: true, Host: true, Doc: "begin of the SHA-256 over the disk image, as its serial number"},
	"seed":        {Type: cty.String, Replace: true, Host: true, Doc: "path of the disk that cloud-init reads, with the agent"},
	"accelerator": {Type: cty.String, Replace: true, Host: true, Doc: "kvm or tcg"},
	"console":     {Type: cty.String, Replace: true, Host: true, Doc: "path of the console log"},
	"nics":        {Type: cty.List(nicType), Replace: true, Doc: "network cards in their order"},
	"id":          {Type: cty.Number, Computed: true, Doc: "the hypervisor's number for this run of it"},
	"pid":         {Type: cty.Number, Computed: true, Doc: "process in the hypervisor's PID namespace"},
	"started":     {Type: cty.String, Computed: true, Doc: "time of the start, RFC 3339"},
	"template":    {Type: cty.String, Computed: true, Doc: "key of the template that it is a clone of, none when it was booted"},
}}

var nicType = cty.Object(map[string]cty.Type{"network": cty.String, "mac": cty.String})

// SerialBytes is how long the serial number of a virtio disk is
// (VIRTIO_BLK_ID_BYTES, <linux/virtio_blk.h>).
const SerialBytes = 20

// Domain mirrors [DomainSchema].
type Domain struct {
	Name        string `cty:"name"`
	UUID        string `cty:"uuid"`
	Address     string `cty:"address"`
	Lineage     string `cty:"lineage"`
	Memory      int64  `cty:"memory"`
	VCPUs       int    `cty:"vcpus"`
	Kernel      string `cty:"kernel"`
	Initrd      string `cty:"initrd"`
	Cmdline     string `cty:"cmdline"`
	Root        string `cty:"root"`
	Disk        string `cty:"disk"`
	DiskFormat  string `cty:"disk_format"`
	DiskSum     string `cty:"disk_sum"`
	Seed        string `cty:"seed"`
	Accelerator string `cty:"accelerator"`
	Console     string `cty:"console"`
	NICs        []NIC  `cty:"nics"`
	ID          int    `cty:"id"`
	PID         int    `cty:"pid"`
	Started     string `cty:"started"`
	Template    string `cty:"template"`
}

// NIC is a virtual network card; Network is the network's name on the
// hypervisor, not its address.
type NIC struct {
	Network string `cty:"network"`
	MAC     string `cty:"mac"`
}

// Value returns the canonical object.
func (d Domain) Value() cty.Value { return encode(DomainSchema, d) }

// DomainFrom reads an object.
func DomainFrom(v cty.Value) (Domain, error) { return decode[Domain](TypeDomain, v) }
