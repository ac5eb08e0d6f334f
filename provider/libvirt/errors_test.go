package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

func answer(code rpc.ErrorNumber, text string) error {
	return rpc.Error{Code: uint32(code), Message: text}
}

// Messages as libvirt 9.0 and QEMU 7.2 print them.
var samples = []error{
	answer(rpc.ErrInternalError, "internal error: process exited while connecting to monitor: qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory"),
	answer(rpc.ErrNoMemory, "out of memory"),
	answer(rpc.ErrSystemError, "unable to write to '/lab/console/ns-0.log': No space left on device"),
	answer(rpc.ErrInternalError, "internal error: process exited while connecting to monitor: qemu-system-x86_64: failed to initialize kvm: Permission denied"),
	answer(rpc.ErrConfigUnsupported, "unsupported configuration: Emulator '/usr/bin/qemu-system-x86_64' does not support virt type 'kvm'"),
	answer(rpc.ErrSystemError, "Unable to open /dev/net/tun, is tun module loaded?: No such file or directory"),
	answer(rpc.ErrInternalError, "internal error: Failed to apply firewall rules /usr/sbin/iptables -w --table filter --list-rules: libvirt:  error : cannot execute binary /usr/sbin/iptables: No such file or directory"),
	answer(rpc.ErrSystemError, "Unable to create bridge lv0: Operation not supported"),
	answer(rpc.ErrInternalError, "internal error: Network is already in use by interface virbr0"),
	answer(rpc.ErrInternalError, "internal error: bridge name 'lv0' already in use."),
	answer(rpc.ErrInternalError, "internal error: cannot load AppArmor profile 'libvirt-3f1f6b0e'"),
	answer(rpc.ErrSystemError, "unable to set security context 'system_u:object_r:svirt_image_t:s0' on '/lab/root': Permission denied"),
	answer(rpc.ErrInternalError, "internal error: SELinux policy denies access."),
	answer(rpc.ErrConfigUnsupported, "unsupported configuration: Emulator '/usr/bin/qemu-system-x86_64' does not support machine type 'q35'"),
	answer(rpc.ErrInternalError, "internal error: process exited while connecting to monitor: qemu-system-x86_64: unsupported machine type: \"q35\""),
	answer(rpc.ErrInternalError, "internal error: process exited while connecting to monitor: qemu-system-x86_64: Failed to get shared \"write\" lock"),
	answer(rpc.ErrInternalError, "internal error: UNIX socket path '/a/very/long/path' too long: the path is too long"),
	answer(rpc.ErrOperationTimeout, "Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainCreateXML)"),
	answer(rpc.ErrInternalError, "internal error: process exited while connecting to monitor: qemu: could not open kernel file '/cache/vmlinuz': No such file or directory"),
	answer(rpc.ErrSystemError, "Cannot access storage file '/cache/root.squashfs': Permission denied"),
	answer(rpc.ErrSystemError, "Cannot access storage file '/var/cache/root.squashfs': No such file or directory"),
	answer(rpc.ErrOperationFailed, "operation failed: domain 'lv-ns-0' already exists with uuid 3f1f6b0e-34b5-5cf4-8e2e-9f1c3c0a2b22"),
	answer(rpc.ErrNetworkExist, "network 'lan' exists"),
	answer(rpc.ErrAuthFailed, "authentication failed: access denied by policy"),
	answer(rpc.ErrConfigUnsupported, "unsupported configuration: tb-cache is not supported"),
	answer(rpc.ErrNoNetwork, "Network not found: no network with matching name 'lv-lan'"),
	answer(rpc.ErrResourceBusy, "resource busy"),
	answer(rpc.ErrRPC, "Cannot write data: Broken pipe"),
	answer(rpc.ErrXMLError, "XML error: duplicate address"),
	answer(rpc.ErrHookScriptFailed, "Hook script execution failed"),
	fmt.Errorf("%w: %w: %w", ErrNoConnection, ErrOutcomeUnknown, context.DeadlineExceeded),
	fmt.Errorf("%w: all of its calls are busy: %w", ErrNoConnection, context.DeadlineExceeded),
	foreign("virtual machine", "lv-ns-0", mark{Lineage: "77aa", Address: "backend.ns[0]"}.owner(true)),
	foreign("virtual machine", "lv-ns-0", mark{}.owner(false)),
}

func TestErrorTable(t *testing.T) {
	var b strings.Builder
	used := map[string]bool{}
	for _, s := range samples {
		err := explain(s, "start virtual machine lv-ns-0")
		if !errors.Is(err, s) && errors.Unwrap(err) != s {
			t.Errorf("the cause is lost: %v", err)
		}
		list := diag.From(err)
		if len(list) != 1 || list[0].Remedy == "" {
			t.Errorf("%d diagnostics of %v", len(list), s)
			continue
		}
		used[list[0].Summary] = true
		fmt.Fprintf(&b, "%s\n  %s\n  -> %s\n\n", list[0].Summary, list[0].Detail, list[0].Remedy)
	}
	for _, c := range causes {
		if !used[c.summary] {
			t.Errorf("no sample of %q", c.summary)
		}
	}
	golden.Check(t, "errors.txt", b.String())
}

func TestDialErrors(t *testing.T) {
	for want, err := range map[string]error{
		"No libvirt at this socket": fs.ErrNotExist, "libvirt does not allow it": syscall.EACCES, "libvirt did not answer": context.DeadlineExceeded,
	} {
		list := diag.From(explainDial(fmt.Errorf("%w: %w", ErrNoConnection, err), "/run/x"))
		if len(list) != 1 || list[0].Summary != want {
			t.Errorf("%v: %+v, want %q", err, list, want)
		}
	}
}

func TestNotFoundIsOnlyWhatLibvirtSays(t *testing.T) {
	for _, code := range []rpc.ErrorNumber{rpc.ErrNoDomain, rpc.ErrNoNetwork, rpc.ErrNoStoragePool, rpc.ErrNoStorageVol} {
		if !IsNotFound(fmt.Errorf("wrapped: %w", answer(code, "x"))) {
			t.Errorf("%d is not recognised", code)
		}
	}
	for _, err := range []error{nil, ErrNoConnection, context.DeadlineExceeded, answer(rpc.ErrInternalError, "Domain not found"), rpc.ErrInterrupted} {
		if IsNotFound(err) {
			t.Errorf("%v counts as not found", err)
		}
	}
}

func TestFailedStartShowsTheLogs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	qemu := write("qemu.log", strings.Repeat("args\n", 100)+"qemu: the last word\n")
	console := write("console.log", strings.Repeat("boot\r\n", 100)+"Kernel panic\r\n")
	p := New(nil, Options{QEMULog: func(string) string { return qemu }})
	err := p.explainStart(t.Context(), answer(rpc.ErrInternalError, "internal error: qemu ended"), schema.Domain{Name: "n", Console: console})
	text := diag.From(err)[0].Detail
	for _, want := range []string{"qemu: the last word", "Kernel panic", qemu, console, "qemu ended"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if n := strings.Count(text, "boot"); n != consoleLines-1 {
		t.Errorf("%d lines of the console", n+1)
	}
	if strings.Contains(text, "\r") {
		t.Error("carriage returns are left")
	}
}

func TestNamedKeepsCauseAndSetsAddress(t *testing.T) {
	r := provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Network, "lan"), Part: "network"}}
	err := named(explain(foreign("network", "lan", "x"), "create it"), r)
	if !errors.Is(err, provider.ErrForeign) || diag.From(err)[0].Address != "network.lan/network" {
		t.Errorf("%v", err)
	}
	if err := named(fs.ErrExist, r); !errors.Is(err, fs.ErrExist) || !strings.HasPrefix(err.Error(), "network.lan/network: ") {
		t.Errorf("%v", err)
	}
}
