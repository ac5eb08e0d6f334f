package hypervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// hostUUID is what libvirtd says its host's UUID is. It derives from the
// lineage so that nothing of the machine gets into a guest's SMBIOS tables.
func hostUUID(lineage string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("lvslab-holder/"+lineage)).String()
}

// LibvirtSocket is the path of the private libvirtd's socket as seen from the host.
func (h *Holder) LibvirtSocket() string { return h.outside(insideSocket) }

// ChannelSocket is the path of a virtio-serial port's socket as seen from the
// host. It is short enough for a Unix socket address (at most 107 bytes).
func (h *Holder) ChannelSocket(domain, port string) string {
	return h.outside(h.ChannelPathInside(domain, port))
}

// maxDomainInPath keeps the longest path below 107 bytes:
// /proc/4194304/root + /run/lvslab/ch/ + 48 + / + 20 = 102.
const (
	maxDomainInPath = 48
	maxPortInPath   = 20
)

// ChannelPathInside is the same path as QEMU inside sees it, to be put into a
// domain's definition.
func (h *Holder) ChannelPathInside(domain, port string) string {
	return insideChannels + "/" + ChannelFile(domain, port)
}

// ChannelFile is the file name that a port's socket has in its directory,
// here and with other hypervisors: at most 69 bytes.
func ChannelFile(domain, port string) string {
	return shorten(domain, maxDomainInPath) + "." + shorten(strings.TrimPrefix(port, "org.lvslab."), maxPortInPath)
}

// shorten keeps short names readable and long ones unique.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := hex.EncodeToString(sum[:5])
	return name[:limit-len(tail)-1] + "-" + tail
}

// Pipe is where a FIFO for a domain can be made, as it is seen inside and from
// the host. Like everything on the private /run it goes with the holder.
func (h *Holder) Pipe(domain string) (inside, outside string) {
	inside = insideTmp + "/" + shorten(domain, maxDomainInPath) + ".pipe"
	return inside, h.outside(inside)
}

// QEMULog is the path, seen from the host, of what QEMU itself said about a domain.
func (h *Holder) QEMULog(domain string) string {
	return h.outside(insideQEMULogs + "/" + domain + ".log")
}

func (h *Holder) outside(path string) string { return fmt.Sprintf("/proc/%d/root%s", h.PID, path) }

// QEMUPIDFile is the path, seen from the host, of the file with the process id
// that a domain's QEMU has inside.
func (h *Holder) QEMUPIDFile(domain string) string {
	return h.outside("/run/libvirt/qemu/" + domain + ".pid")
}
