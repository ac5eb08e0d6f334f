package libvirt

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// ParseURI turns the target of a connection into the path of a socket and the
// URI that is asked for over it. It takes an absolute path, qemu:///system,
// qemu:///session, and the same with qemu+unix and ?socket=PATH.
func ParseURI(target string) (socket, uri string, err error) {
	if filepath.IsAbs(target) {
		return target, "qemu:///system", nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return "", "", badURI(target, "it cannot be parsed: "+err.Error())
	}
	driver, transport, _ := strings.Cut(u.Scheme, "+")
	switch {
	case driver != "qemu":
		return "", "", badURI(target, "only the driver qemu is supported")
	case transport != "" && transport != "unix" || u.Host != "":
		return "", "", badURI(target, "it names a libvirt on another machine, and the VMs' sockets must be on this one")
	case u.Path != "/system" && u.Path != "/session":
		return "", "", badURI(target, "its path must be /system or /session")
	}
	if s := u.Query().Get("socket"); s != "" {
		return s, "qemu://" + u.Path, nil
	}
	if u.Path == "/system" {
		return "/run/libvirt/libvirt-sock", "qemu:///system", nil
	}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if run == "" {
		run = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	return filepath.Join(run, "libvirt", "libvirt-sock"), "qemu:///session", nil
}

func badURI(target, why string) error {
	return diag.Fail(nil, "Unsupported libvirt URI",
		`Use "embedded" (the default), "qemu:///system", "qemu:///session" or "qemu+unix:///system?socket=PATH".`, "%q: %s", target, why)
}
