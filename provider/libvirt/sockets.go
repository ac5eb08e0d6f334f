package libvirt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider/schema"
)

// maxSocketPath is the size of sockaddr_un.sun_path without its final zero (unix(7)).
const maxSocketPath = 107

// prepareSockets refuses paths that no socket can have and, with a libvirt of
// this machine, makes their directory.
func (p *Provider) prepareSockets(d schema.Domain) error {
	for _, port := range ports() {
		path := p.opts.ChannelPath(d.Name, port)
		if len(path) > maxSocketPath {
			return diag.Fail(nil, "The path of a socket is too long", "Use a shorter run directory.",
				"%s has %d bytes; the kernel takes %d", path, len(path), maxSocketPath)
		}
		if p.opts.Bridges != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("directory of the sockets: %w", err)
		}
	}
	return nil
}

// removeSockets removes what QEMU has left of a domain that is gone, and the
// directory with the last of them. In a private hypervisor it all ends with it.
func (p *Provider) removeSockets(d schema.Domain) error {
	if p.opts.Bridges != nil {
		return nil
	}
	if p.opts.Pipe != nil {
		_, pipe := p.opts.Pipe(d.Name)
		if err := dropPipe(pipe); err != nil {
			return fmt.Errorf("pipe of virtual machine %s: %w", d.Name, err)
		}
	}
	for _, port := range ports() {
		path := p.opts.ChannelPath(d.Name, port)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("socket of virtual machine %s: %w", d.Name, err)
		}
		_ = os.Remove(filepath.Dir(path)) // fails while another machine's are in it
	}
	return nil
}
