package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider/schema"
)

// maxSocketPath is the size of sockaddr_un.sun_path without its final zero (unix(7)).
const maxSocketPath = 107

// prepareSockets refuses paths that no socket can have and, with a libvirt that
// is not ours alone, makes their directory.
func (p *Provider) prepareSockets(ctx context.Context, d schema.Domain) error {
	for _, port := range ports() {
		path := p.opts.ChannelPath(d.Name, port)
		if len(path) > maxSocketPath {
			return diag.Fail(nil, "The path of a socket is too long", "Use a shorter run directory.",
				"%s has %d bytes; the kernel takes %d", path, len(path), maxSocketPath)
		}
		if p.opts.Bridges != nil {
			continue
		}
		if err := p.opts.Place.MkdirAll(ctx, filepath.Dir(path)); err != nil {
			return fmt.Errorf("directory of the sockets: %w", err)
		}
	}
	return nil
}

// removeSockets removes what QEMU has left of a domain that is gone, and the
// directory with the last of them. In a private hypervisor it all ends with it.
func (p *Provider) removeSockets(ctx context.Context, d schema.Domain) error {
	if p.opts.Bridges != nil {
		return nil
	}
	if p.opts.Pipe != nil {
		_, pipe := p.opts.Pipe(d.Name)
		if err := dropPipe(pipe); err != nil {
			return fmt.Errorf("pipe of virtual machine %s: %w", d.Name, err)
		}
	}
	if p.opts.DropConsoles && d.Console != "" {
		if err := p.opts.Place.Remove(ctx, d.Console); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("console log of virtual machine %s: %w", d.Name, err)
		}
		_ = p.opts.Place.Remove(ctx, filepath.Dir(d.Console)) // as below
	}
	dir := ""
	for _, port := range ports() {
		path := p.opts.ChannelPath(d.Name, port)
		dir = filepath.Dir(path)
		if err := p.opts.Place.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("socket of virtual machine %s: %w", d.Name, err)
		}
	}
	_ = p.opts.Place.Remove(ctx, dir) // fails while another machine's are in it
	return nil
}
