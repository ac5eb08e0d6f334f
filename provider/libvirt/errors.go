package libvirt

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
)

// isCode reports whether the error is libvirt's answer with one of these codes.
func isCode(err error, codes ...rpc.ErrorNumber) bool {
	var answer rpc.Error
	if !errors.As(err, &answer) {
		return false
	}
	for _, c := range codes {
		if answer.Code == uint32(c) {
			return true
		}
	}
	return false
}

// IsNotFound reports whether libvirt says that the object does not exist:
// domain, network, storage pool or volume. go-libvirt's own function knows
// domains only. No other error means that something does not exist.
func IsNotFound(err error) bool {
	return isCode(err, rpc.ErrNoDomain, rpc.ErrNoNetwork, rpc.ErrNoStoragePool, rpc.ErrNoStorageVol)
}

// cause is one row of the table from libvirt's errors to what people can do.
type cause struct {
	// codes are libvirt's error numbers; none means any.
	codes []rpc.ErrorNumber
	// text is a part of the message in lower case; "" means any.
	text            string
	summary, remedy string
}

// causes are tried from top to bottom. libvirt reports all that QEMU says as one
// code, an internal error, so there a message says more. It chooses what people
// are told and nothing else: whatever is decided is decided by codes.
var causes = []cause{
	{text: "apparmor", summary: "AppArmor does not allow it",
		remedy: "Look for DENIED in the kernel's log (dmesg), let the profile reach the file named there, or use the embedded hypervisor: provider \"libvirt\" { uri = \"embedded\" }."},
	{text: "selinux", summary: "SELinux does not allow it",
		remedy: "Look with ausearch -m avc what was denied; move the lab below a directory that libvirt may label, or use the embedded hypervisor."},
	{text: "security context", summary: "SELinux does not allow it",
		remedy: "Look with ausearch -m avc what was denied; move the lab below a directory that libvirt may label, or use the embedded hypervisor."},
	{text: "support machine type", summary: "QEMU lacks the machine type",
		remedy: "lvslab needs QEMU 7.0 or later with the machine type named here: install qemu-system-x86; lvslab doctor shows what is installed."},
	{text: "unsupported machine type", summary: "QEMU lacks the machine type",
		remedy: "lvslab needs QEMU 7.0 or later with the machine type named here: install qemu-system-x86; lvslab doctor shows what is installed."},
	{text: "cannot allocate memory", summary: "Not enough memory",
		remedy: "End other programs or labs, or give the lab's machines less memory (memory = \"192MiB\")."},
	{codes: []rpc.ErrorNumber{rpc.ErrNoMemory}, summary: "Not enough memory",
		remedy: "End other programs or labs, or give the lab's machines less memory (memory = \"192MiB\")."},
	{text: "no space left on device", summary: "No space left on a file system",
		remedy: "Free some space where the lab's directory is, for example with lvslab image rm."},
	{text: "failed to initialize kvm", summary: "KVM cannot be used",
		remedy: "Run lvslab doctor: it measures whether KVM works and says why not."},
	{text: "does not support virt type 'kvm'", summary: "KVM cannot be used",
		remedy: "Run lvslab doctor: it measures whether KVM works and says why not."},
	{text: "kvm is not available", summary: "KVM cannot be used",
		remedy: "Run lvslab doctor: it measures whether KVM works and says why not."},
	{text: "/dev/net/tun", summary: "The kernel makes no taps",
		remedy: "Load the module: modprobe tun; in a container, pass /dev/net/tun in."},
	{text: "unable to create tap device", summary: "The kernel makes no taps",
		remedy: "Load the module: modprobe tun; in a container, pass /dev/net/tun in."},
	{text: "failed to apply firewall rules", summary: "libvirt cannot set its firewall rules",
		remedy: "Install what it runs: apt-get install --no-install-recommends iptables; the embedded hypervisor needs none."},
	{text: "unable to create bridge", summary: "The bridge cannot be made",
		remedy: "Look with ip link whether a device of that name exists; load the module: modprobe bridge."},
	{text: "network is already in use by interface", summary: "The network's addresses are in use",
		remedy: "The interface named here has addresses of the same subnet: give the network another cidr, or end what uses it."},
	{text: "bridge name", summary: "The bridge's name is taken",
		remedy: "Another network or program made it: look with ip link, and end the other lab or rename the network."},
	{text: "failed to get \"write\" lock", summary: "The image is in use",
		remedy: "End the program that writes to the image, then apply again."},
	{text: "failed to get shared \"write\" lock", summary: "The image is in use",
		remedy: "End the program that writes to the image, then apply again."},
	{text: "is too long", summary: "A path is too long for a socket",
		remedy: "Use a shorter run directory."},
	{text: "cannot acquire state change lock", summary: "libvirt is busy with this virtual machine",
		remedy: "Wait until the other call has ended, then repeat the command."},
	{text: "could not open kernel file", summary: "The kernel cannot be read",
		remedy: "Build the image again: lvslab image build."},
	{text: "permission denied", summary: "QEMU may not open a file",
		remedy: "Look at the owner and mode of the file named here and of the directories above it; QEMU's user must be able to reach it."},
	{text: "no such file or directory", summary: "A file is missing",
		remedy: "If it exists on the machine, it lies in a directory that is hidden from the lab (/etc, /run, /var): move it, or build the image again: lvslab image build."},
	{codes: []rpc.ErrorNumber{rpc.ErrDomExist, rpc.ErrNetworkExist}, summary: "The name or UUID is taken",
		remedy: "Look at the object named here. lvslab does not touch what does not bear its mark: rename the lab, or remove the object yourself."},
	{text: "already exists with uuid", summary: "The name is taken",
		remedy: "Look at the object named here. lvslab does not touch what does not bear its mark: rename the lab, or remove the object yourself."},
	{codes: []rpc.ErrorNumber{rpc.ErrAuthFailed, rpc.ErrAuthCancelled, rpc.ErrAuthUnavailable, rpc.ErrAccessDenied, rpc.ErrOperationDenied},
		summary: "libvirt does not allow it", remedy: "Run lvslab with sudo, or let your user into the group libvirt."},
	{codes: []rpc.ErrorNumber{rpc.ErrConfigUnsupported, rpc.ErrArgumentUnsupported, rpc.ErrOperationUnsupported, rpc.ErrNoSupport},
		summary: "This libvirt or QEMU cannot do it", remedy: "lvslab needs libvirt 8.0 and QEMU 7.0 or later; lvslab doctor shows what is installed."},
	{codes: []rpc.ErrorNumber{rpc.ErrNoNetwork}, summary: "The network does not exist",
		remedy: "Apply again: the network is made before the virtual machines that are on it."},
	{codes: []rpc.ErrorNumber{rpc.ErrOperationTimeout, rpc.ErrResourceBusy}, summary: "libvirt is busy",
		remedy: "Wait a little, then repeat the command."},
	{codes: []rpc.ErrorNumber{rpc.ErrNoConnect, rpc.ErrInvalidConn, rpc.ErrRPC}, summary: "libvirt has lost its connection",
		remedy: "Repeat the command; when it fails again, look at libvirt's log."},
	{codes: []rpc.ErrorNumber{rpc.ErrXMLError, rpc.ErrXMLDetail, rpc.ErrXMLInvalidSchema}, summary: "libvirt does not understand the definition",
		remedy: "This is a mistake in lvslab: report it with libvirt's version and this message."},
}

// explain turns an error of a call into a failure that says what can be done.
// action completes "could not …". Failures that are known already pass.
func explain(err error, action string) error {
	if err == nil {
		return nil
	}
	var known *diag.Failure
	if errors.As(err, &known) {
		return err
	}
	switch {
	case errors.Is(err, provider.ErrForeign):
		return diag.Fail(err, "The name is taken", "Rename the lab, or remove the object yourself; lvslab does not touch what does not bear its mark.",
			"Could not %s", action)
	case errors.Is(err, ErrOutcomeUnknown):
		return diag.Fail(err, "libvirt did not answer", "Repeat the command: it looks first at what became of the call.", "Could not %s", action)
	case errors.Is(err, ErrNoConnection):
		return diag.Fail(err, "libvirt did not answer", "Repeat the command.", "Could not %s", action)
	}
	c := causeOf(err)
	return diag.Fail(err, c.summary, c.remedy, "Could not %s", action)
}

// causeOf finds the row for an error; there is always one.
func causeOf(err error) cause {
	text := strings.ToLower(err.Error())
	for _, c := range causes {
		if (len(c.codes) == 0 || isCode(err, c.codes...)) && strings.Contains(text, c.text) {
			return c
		}
	}
	return cause{summary: "libvirt reports an error", remedy: "Look at libvirt's log, then repeat the command."}
}

// explainDial says why a socket could not be reached.
func explainDial(err error, socket string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return diag.Fail(err, "No libvirt at this socket",
			"Start libvirtd, or use the embedded hypervisor: provider \"libvirt\" { uri = \"embedded\" }.", "%s does not exist", socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return diag.Fail(err, "No libvirt at this socket", "Start libvirtd; the socket is a leftover of one that has ended.", "Nobody listens at %s", socket)
	case errors.Is(err, fs.ErrPermission):
		return diag.Fail(err, "libvirt does not allow it", "Run lvslab with sudo, or let your user into the group libvirt.", "%s may not be opened", socket)
	}
	return explain(err, "connect to "+socket)
}
