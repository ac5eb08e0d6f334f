package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirtxml"

	"github.com/lvslab/lvslab/provider/schema"
)

// What is made for a template on a libvirt that has other users: names that
// nobody else has, and a way to find all of it again when its maker has died.

// TemplateDomain names the machine that a template is saved from. Name, UUID
// and the names of its network derive from the lineage.
func TemplateDomain(lineage string) schema.Domain {
	return schema.Domain{Name: "lvslab-" + lineage, UUID: derivedID(lineage, "domain"), Lineage: lineage, Address: templateNetwork}
}

// templateSegment is the network that the machine's card is in. In a private
// hypervisor it is the only one.
func (p *Provider) templateSegment(lineage string) schema.Network {
	n := schema.Network{Name: templateNetwork, UUID: derivedID(lineage, templateNetwork), Bridge: templateNetwork, Address: templateNetwork, Lineage: lineage}
	if p.opts.Bridges == nil {
		sum := sha256.Sum256([]byte(lineage))
		n.Name, n.Bridge = "lvslab-"+lineage, "lvt"+hex.EncodeToString(sum[:6]) // a link's name has at most 15 bytes
	}
	return n
}

func derivedID(lineage, part string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(lineage+"/"+part)).String()
}

// DiscardTemplate removes what SaveTemplate has made for the machine of that
// lineage: itself, its sockets, its network. What does not exist is no error.
func (p *Provider) DiscardTemplate(ctx context.Context, lineage string) error {
	return errors.Join(p.deleteDomain(ctx, TemplateDomain(lineage)), p.deleteNetwork(ctx, p.templateSegment(lineage)))
}

// World changes when a machine that this libvirt has saved cannot be trusted to
// go on: it names the versions of libvirt and of QEMU as libvirt tells them.
func (p *Provider) World(ctx context.Context) (string, error) {
	var lib, qemu uint64
	err := p.conn.ask(ctx, func(l *rpc.Libvirt) (err error) {
		if lib, err = l.ConnectGetLibVersion(); err != nil {
			return err
		}
		qemu, err = l.ConnectGetVersion()
		return err
	})
	if err != nil {
		return "", explain(err, "ask libvirt for its version")
	}
	return fmt.Sprintf("libvirt %d, QEMU %d", lib, qemu), nil
}

// KVM reports whether this libvirt runs machines on KVM if nothing else is asked
// for, and so whether it can.
func (p *Provider) KVM(ctx context.Context) (bool, error) {
	var text string
	err := p.conn.ask(ctx, func(l *rpc.Libvirt) (err error) {
		text, err = l.ConnectGetDomainCapabilities(rpc.OptString{emulator}, rpc.OptString{"x86_64"}, rpc.OptString{"pc"}, nil, 0)
		return err
	})
	if err != nil {
		return false, explain(err, "ask libvirt what "+emulator+" can do")
	}
	var caps libvirtxml.DomainCaps
	if err := caps.Unmarshal(text); err != nil {
		return false, fmt.Errorf("libvirt's answer about %s: %w", emulator, err)
	}
	return caps.Domain == "kvm", nil
}

// dropPipe removes a FIFO, if there is one. A reader that still waits on it is
// told that nothing comes: libvirtd would wait for ever.
func dropPipe(path string) error {
	if old, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
		old.Close()
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
