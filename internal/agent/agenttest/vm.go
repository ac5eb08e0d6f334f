// Package agenttest boots single guests with plain QEMU, without libvirt and
// without network namespaces, for tests of what runs inside them.
package agenttest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// VM is a guest that ends with its test.
type VM struct {
	Node    string
	Console string // path of its console log
	Started time.Time

	dir    string
	key    client.Key // the client's
	host   client.Key
	bootID string
	cmd    *exec.Cmd
}

// Wire is a cable between two guests: a Unix socket, so the host's network sees
// nothing of it. The first guest listens, the second one connects.
type Wire struct {
	MAC    string
	Socket string
	Listen bool
}

// Boot starts a guest with the built-in image and the built agent. The machine
// is what a lab gets: type pc, 256 MiB, one emulated CPU.
func Boot(t testing.TB, node string, wires ...Wire) *VM {
	t.Helper()
	vm := prepare(t, node)
	cache, err := images.DefaultCacheDir()
	check(t, err)
	img, err := images.Build(t.Context(), images.Debian12, images.Options{CacheDir: cache})
	check(t, err)
	agent, err := binary.Bytes()
	check(t, err)
	initrd, err := images.InitrdWithAgent(t.Context(), img, agent, cache)
	check(t, err)
	args := []string{"-machine", "pc,accel=tcg", "-m", "256", "-smp", "1", "-display", "none", "-nodefaults", "-no-reboot",
		"-serial", "file:" + vm.Console, "-kernel", img.Kernel, "-initrd", initrd,
		"-append", "console=ttyS0 rdinit=" + images.AgentPath + " " + images.KernelArgs,
		"-drive", "file=" + img.Root + ",format=raw,if=virtio,readonly=on", "-device", "virtio-serial-pci"}
	for i, port := range append([]string{proto.EnginePort}, proto.UserPorts...) {
		args = append(args, "-chardev", fmt.Sprintf("socket,id=c%d,path=%s,server=on,wait=off", i, vm.socket(port)),
			"-device", fmt.Sprintf("virtserialport,chardev=c%d,name=%s", i, port))
	}
	for i, w := range wires {
		server := "off"
		if w.Listen {
			server = "on"
		}
		args = append(args, "-netdev", fmt.Sprintf("stream,id=n%d,server=%s,addr.type=unix,addr.path=%s", i, server, w.Socket),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=n%d,mac=%s,romfile=", i, w.MAC))
	}
	vm.start(t, args)
	return vm
}

func prepare(t testing.TB, node string) *VM {
	t.Helper()
	dir, err := os.MkdirTemp("", "lvslab") // t.TempDir's names may be too long for a socket
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	key, err := client.NewKey("")
	check(t, err)
	host, err := client.NewKey("")
	check(t, err)
	return &VM{Node: node, Console: filepath.Join(dir, "console"), dir: dir, key: key, host: host, bootID: "boot-of-" + node}
}

func (vm *VM) start(t testing.TB, args []string) {
	t.Helper()
	var errs strings.Builder
	vm.cmd = exec.Command("qemu-system-x86_64", args...)
	vm.cmd.Stderr = &errs
	vm.Started = time.Now()
	check(t, vm.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = vm.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = vm.cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("console of %s:\n%s", vm.Node, strings.Join(client.LastLines(vm.Console, 50), "\n"))
			if errs.Len() > 0 {
				t.Logf("QEMU of %s: %s", vm.Node, errs.String())
			}
		}
	})
}

func (vm *VM) socket(port string) string { return filepath.Join(vm.dir, port) }

// Spec returns how to dial a port; on the engine's port with an identity to give.
func (vm *VM) Spec(port string) client.DialSpec {
	spec := client.DialSpec{
		Node: vm.Node, ClientKey: vm.key.Private, HostKey: vm.host.Public,
		Open: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", vm.socket(port))
		},
	}
	if port == proto.EnginePort {
		host := strings.NewReplacer(".", "-", "[", "-", "]", "").Replace(vm.Node)
		spec.Enrol = &proto.Enrol{Hostname: host, HostKey: vm.host.Private, BootID: vm.bootID}
	}
	return spec
}

// Dial connects to a port, waiting for the boot; the connection ends with the test.
func (vm *VM) Dial(t testing.TB, port string) *client.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := client.WaitReady(ctx, vm.Spec(port), client.Console{Path: vm.Console, Quiet: time.Minute})
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitFile waits until QEMU has made a socket.
func waitFile(t testing.TB, path string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not appear", path)
		}
	}
}

// CPU returns the processor time that the guest has used up to now. On a busy
// machine it says more than the clock.
func (vm *VM) CPU(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", vm.cmd.Process.Pid))
	check(t, err)
	// Fields 14 and 15 of proc(5), counted after the name in brackets; USER_HZ is 100.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	check(t, err)
	system, err := strconv.Atoi(fields[12])
	check(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
