package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/provider/schema"
)

// Template is a saved machine with one network card of which clones are made.
type Template struct {
	// Path is the file that [Provider.SaveTemplate] has written.
	Path string
	// Key identifies it; a clone carries it in its mark.
	Key string
}

// Step is how far a domain has come; see [Options.Observe].
type Step string

// The steps. A domain is Restored and then Plugged, or it is Booted.
const (
	Restored Step = "restored"  // it runs, with its first network card
	Plugged  Step = "plugged"   // all its cards are in; the guest sees the others 0.2 to 0.4 s later
	Booted   Step = "booted"    // it was started from its kernel
	FellBack Step = "fell back" // it could not be cloned, and will be booted
)

// clone makes a domain of a template: the saved file is passed on with another
// definition. It has one card, which has the template's address until the guest
// is enrolled; further ones are plugged in. Measured: 0.3 s for one restore,
// against 3.5 s for a boot. A card that is plugged in costs 43 ms here, and in
// the guest 0.3 s of work and waiting before its driver has it.
func (p *Provider) clone(ctx context.Context, d schema.Domain, t Template) error {
	id, err := parseUUID(d.UUID)
	if err != nil {
		return fmt.Errorf("domain %s: %w", d.Name, err)
	}
	file, head, err := openTemplate(t.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if head.xml, err = cloneXML(head.xml, d, p.newMark(d, t.Key), p.opts.ChannelPath); err != nil {
		return err
	}
	if err := p.restore(ctx, d.Name, head, file); err != nil {
		return err
	}
	p.observe(d, Restored, nil)
	dom := rpc.Domain{Name: d.Name, UUID: id, ID: -1}
	for _, n := range d.NICs[min(1, len(d.NICs)):] {
		nic := networkCard(n)
		text, err := nic.Marshal()
		if err != nil {
			return err
		}
		err = p.conn.Do(ctx, makeTimeout, func(l *rpc.Libvirt) error {
			return l.DomainAttachDeviceFlags(dom, text, uint32(rpc.DomainDeviceModifyLive))
		})
		if err != nil {
			return fmt.Errorf("plug in the card %s: %w", n.MAC, err)
		}
	}
	p.observe(d, Plugged, nil)
	return nil
}

// restore has libvirt read the saved machine from a FIFO that it is fed through.
func (p *Provider) restore(ctx context.Context, name string, head saveHead, template *os.File) error {
	inside, outside := p.opts.Pipe(name)
	if err := makePipe(outside); err != nil {
		return err
	}
	defer os.Remove(outside)
	var feedErr error
	err := p.conn.Do(ctx, makeTimeout, func(l *rpc.Libvirt) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		fed := make(chan error, 1)
		go func() { fed <- feed(ctx, outside, head.encode(), template, head.stream) }()
		err := l.DomainRestoreFlags(inside, nil, uint32(rpc.DomainSaveRunning))
		cancel() // a call that has failed reads no more
		if ferr := <-fed; err != nil {
			feedErr = ferr
		}
		return err
	})
	// A pipe that nobody read to its end is what a failed restore looks like from here.
	if err != nil && feedErr != nil && !errors.Is(feedErr, context.Canceled) && !errors.Is(feedErr, unix.EPIPE) {
		return fmt.Errorf("restore: %w (%w)", err, feedErr)
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// newMark is the mark of a domain that is started now.
func (p *Provider) newMark(d schema.Domain, template string) mark {
	return mark{Dir: p.opts.Dir, Lineage: d.Lineage, Address: d.Address, Started: time.Now().UTC().Format(time.RFC3339Nano), Template: template}
}

// cloneXML gives a template's definition the identity, the files and the
// sockets of another domain. All else, the devices' addresses above all, stays
// as QEMU's stream expects it.
func cloneXML(text string, d schema.Domain, m mark, channelPath func(domain, port string) string) (string, error) {
	var def libvirtxml.Domain
	if err := def.Unmarshal(text); err != nil {
		return "", fmt.Errorf("%w: its definition: %w", errSaveFile, err)
	}
	have, _, _, err := domainFromXML(text)
	if err != nil {
		return "", err
	}
	if have.Memory != d.Memory || have.VCPUs != d.VCPUs || have.Accelerator != d.Accelerator || have.Cmdline != d.Cmdline || len(have.NICs) != 1 || len(d.NICs) == 0 {
		return "", fmt.Errorf("%w of this kind: it has %d MiB, %d processors, %d cards and runs on %s",
			errSaveFile, have.Memory>>20, have.VCPUs, len(have.NICs), have.Accelerator)
	}
	def.Name, def.UUID, def.Title = d.Name, d.UUID, d.Address
	def.Metadata = &libvirtxml.DomainMetadata{XML: m.encode()}
	def.OS.Kernel, def.OS.Initrd = d.Kernel, d.Initrd
	dev := def.Devices
	nic := &dev.Interfaces[0]
	nic.MAC = &libvirtxml.DomainInterfaceMAC{Address: d.NICs[0].MAC}
	nic.Source = networkCard(d.NICs[0]).Source
	for i := range dev.Disks {
		if src := dev.Disks[i].Source; src != nil && src.File != nil {
			src.File.File = d.Root
		}
	}
	setConsole := func(src *libvirtxml.DomainChardevSource) {
		if src != nil && src.File != nil {
			src.File.Path = d.Console
		}
	}
	for i := range dev.Serials {
		setConsole(dev.Serials[i].Source)
	}
	for i := range dev.Consoles {
		setConsole(dev.Consoles[i].Source)
	}
	for i := range dev.Channels {
		c := &dev.Channels[i]
		if c.Source == nil || c.Source.UNIX == nil || c.Target == nil || c.Target.VirtIO == nil {
			return "", fmt.Errorf("%w: it has a channel that is none of ours", errSaveFile)
		}
		c.Source.UNIX.Path = channelPath(d.Name, c.Target.VirtIO.Name)
	}
	return def.Marshal()
}

// Shape is the part of a domain's definition on which a saved machine of its
// kind depends: everything but its identity, its cards and its paths. Together
// with the files' contents and the programs it makes a template's key.
func Shape(d schema.Domain) (string, error) {
	d = schema.Domain{Name: "template", Memory: d.Memory, VCPUs: d.VCPUs, Accelerator: d.Accelerator, Cmdline: d.Cmdline, Root: "root",
		NICs: []schema.NIC{{Network: templateNetwork, MAC: proto.TemplateMAC}}}
	return domainXML(d, mark{}, func(string, string) string { return "socket" })
}

// templateNetwork is the name of the network that a template's card is in.
const templateNetwork = "template"

// SaveTemplate makes a machine with one card, waits until ready returns, and
// saves it to path, which must lie where libvirtd can write. Nothing of the
// machine is left then, except its console log and its network; what is left
// after an error, too, [Provider.DiscardTemplate] removes, and parts of files
// may be left beside path.
func (p *Provider) SaveTemplate(ctx context.Context, d schema.Domain, path string, ready func(context.Context) error) error {
	network := p.templateSegment(d.Lineage)
	if _, err := p.createNetwork(ctx, network); err != nil {
		return err
	}
	d.NICs = []schema.NIC{{Network: network.Name, MAC: proto.TemplateMAC}}
	if _, err := p.createDomain(ctx, d); err != nil {
		return err
	}
	if err := ready(ctx); err != nil {
		return err
	}
	dom, _, err := p.findDomain(ctx, d)
	if err != nil {
		return err
	}
	whole := path + ".whole"
	err = p.conn.Do(ctx, makeTimeout, func(l *rpc.Libvirt) error {
		return l.DomainSaveFlags(dom, whole, nil, uint32(rpc.DomainSaveRunning))
	})
	if err != nil {
		return explain(err, "save virtual machine "+d.Name)
	}
	if _, err := withoutZeros(whole, path); !errors.Is(err, errStream) {
		return errors.Join(err, os.Remove(whole))
	}
	return os.Rename(whole, path) // larger and slower, and as good
}
