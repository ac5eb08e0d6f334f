package libvirt

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	rpc "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/provider/schema"
)

// Owned is a domain or network that bears a lab's mark.
type Owned struct {
	// Type is [schema.TypeDomain] or [schema.TypeNetwork].
	Type                         string
	Name, UUID, Lineage, Address string
	// Dir is the lab's directory, by which its state is found; "" when the object
	// does not tell.
	Dir string
	// Console is the path of a domain's console log.
	Console string
}

// ListOwned returns what bears the mark of that lineage, or of any lab when lineage
// is "": domains first, found by looking at all that libvirt has. Networks
// of the private hypervisor bear none, as they end with it.
func (p *Provider) ListOwned(ctx context.Context, lineage string) ([]Owned, error) {
	var doms []rpc.Domain
	var nets []rpc.Network
	err := p.conn.ask(ctx, func(l *rpc.Libvirt) (err error) {
		if doms, _, err = l.ConnectListAllDomains(1, 0); err != nil {
			return err
		}
		nets, _, err = l.ConnectListAllNetworks(1, 0)
		return err
	})
	if err != nil {
		return nil, explain(err, "list virtual machines and networks")
	}
	var list []Owned
	add := func(name string, describe func(*rpc.Libvirt) (string, error), read func(string) (Owned, bool, error)) error {
		var text string
		err := p.conn.ask(ctx, func(l *rpc.Libvirt) (err error) {
			text, err = describe(l)
			return err
		})
		if IsNotFound(err) {
			return nil // it has gone meanwhile
		}
		if err != nil {
			return explain(err, "look at "+name)
		}
		o, marked, err := read(text)
		if err == nil && marked && (lineage == "" || o.Lineage == lineage) {
			list = append(list, o)
		}
		return err
	}
	for _, d := range doms {
		describe := func(l *rpc.Libvirt) (string, error) { return l.DomainGetXMLDesc(d, rpc.DomainXMLInactive) }
		if err := add("virtual machine "+d.Name, describe, ownedDomain); err != nil {
			return nil, err
		}
	}
	for _, n := range nets {
		describe := func(l *rpc.Libvirt) (string, error) { return l.NetworkGetXMLDesc(n, 0) }
		if err := add("network "+n.Name, describe, ownedNetwork); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func ownedDomain(text string) (Owned, bool, error) {
	d, m, marked, err := domainFromXML(text)
	o := Owned{Type: schema.TypeDomain, Name: d.Name, UUID: d.UUID, Lineage: m.Lineage, Address: m.Address, Console: d.Console}
	if o.Dir = m.Dir; o.Dir == "" && d.Console != "" { // DIR/console/NODE.log
		o.Dir = filepath.Dir(filepath.Dir(d.Console))
	}
	return o, marked, err
}

func ownedNetwork(text string) (Owned, bool, error) {
	var def libvirtxml.Network
	if err := def.Unmarshal(text); err != nil {
		return Owned{}, false, fmt.Errorf("libvirt's definition of a network: %w", err)
	}
	m, marked := groupMarkOf(def)
	return Owned{Type: schema.TypeNetwork, Name: def.Name, UUID: def.UUID, Lineage: m.Lineage, Address: m.Address, Dir: m.Dir}, marked, nil
}

// RemoveOwned removes what [Provider.ListOwned] has found, unless it bears
// another mark by now.
func (p *Provider) RemoveOwned(ctx context.Context, o Owned) error {
	if o.Type == schema.TypeDomain {
		return p.deleteDomain(ctx, schema.Domain{Name: o.Name, UUID: o.UUID, Lineage: o.Lineage, Address: o.Address, Console: o.Console})
	}
	owned, err := p.ListOwned(ctx, o.Lineage)
	if err != nil {
		return err
	}
	for _, now := range owned {
		if now == o {
			return p.deleteNetwork(ctx, schema.Network{Name: o.Name, UUID: o.UUID, Lineage: o.Lineage, Address: o.Address})
		}
	}
	return nil
}

// groupMark is the mark of a network on a libvirt of the user's own. Metadata of
// networks came with libvirt 9.7; a port group that no port uses means nothing to
// libvirt, and all versions keep it.
type groupMark struct {
	Lineage string `json:"lineage"`
	Address string `json:"address"`
	Dir     string `json:"dir"`
}

const groupMarkPrefix = "lvslab "

func (m groupMark) group() libvirtxml.NetworkPortGroup {
	text, _ := json.Marshal(m) // strings cannot fail
	return libvirtxml.NetworkPortGroup{Name: groupMarkPrefix + string(text)}
}

// groupMarkOf returns the mark and whether there is one.
func groupMarkOf(def libvirtxml.Network) (groupMark, bool) {
	for _, g := range def.PortGroups {
		var m groupMark
		text, ours := strings.CutPrefix(g.Name, groupMarkPrefix)
		if ours && json.Unmarshal([]byte(text), &m) == nil && m.Lineage != "" {
			return m, true
		}
	}
	return groupMark{}, false
}
