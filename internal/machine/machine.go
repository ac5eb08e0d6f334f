package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
)

// Spec is what the guest is made of.
type Spec struct {
	Node  string // its name, for messages
	Image images.Image
	// Initrd is the image's initramfs with the agent ([images.InitrdWithAgent]).
	Initrd      string
	Accelerator hypervisor.Accelerator
}

// bootWithin bounds a boot: 5 s on two idle cores under emulation.
const bootWithin = 90 * time.Second

// memory of the guest, MiB, and one processor, as a director of a lab has.
const memory = 256

// Machine is a guest that answers. It is a [client.Caller].
type Machine struct {
	*client.Conn
	*qemu
}

// qemu is the guest's process.
type qemu struct {
	console *tail
	kill    context.CancelFunc
	ended   context.Context // ends when the process has
	failed  error           // why it was not started; known when it has ended
}

// Start boots a guest and returns when its agent answers. One that does not
// come up is tried once more: a boot under emulation hangs once in some
// hundred. The context is for the start alone; [Machine.Stop] ends the guest.
func Start(ctx context.Context, s Spec) (*Machine, error) {
	m, err := start(ctx, s)
	var boot *client.BootError
	if errors.As(err, &boot) && ctx.Err() == nil {
		m, err = start(ctx, s)
	}
	return m, err
}

// Stop kills the guest and waits until its process has ended.
func (m *Machine) Stop() {
	if m.Conn != nil {
		_ = m.Conn.Close()
	}
	m.kill()
	<-m.ended.Done()
}

func start(parent context.Context, s Spec) (*Machine, error) {
	near, far, err := pair()
	if err != nil {
		return nil, err
	}
	m := &Machine{qemu: runBound(arguments(s), far)}
	ctx, cancel := context.WithTimeout(parent, bootWithin)
	defer cancel()
	stop := context.AfterFunc(m.ended, cancel)
	defer stop()
	spec, err := identity(s.Node, near)
	if err == nil {
		m.Conn, err = client.Dial(ctx, spec)
	}
	if err == nil {
		return m, nil
	}
	_ = near.Close()
	reason := "no answer from the agent in time"
	if m.ended.Err() != nil {
		reason = "QEMU ended"
	}
	m.Stop()
	switch {
	case m.failed != nil:
		return nil, diag.Fail(m.failed, "QEMU does not start", "Run `lvslab doctor`: it says what to install.", "")
	case parent.Err() != nil:
		return nil, context.Cause(parent)
	case ctx.Err() == nil:
		return nil, err // what no waiting mends
	}
	return nil, diag.Fail(&client.BootError{Node: s.Node, Reason: reason, Lines: m.console.lines()}, "The machine did not come up",
		"Try again. If it stays so, run `lvslab doctor`.", "")
}

// arguments are QEMU's. The port's socket is the first file after the standard
// ones.
func arguments(s Spec) []string {
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-net", "none",
		"-machine", "pc,accel=" + string(s.Accelerator), "-m", strconv.Itoa(memory), "-smp", "1", "-serial", "stdio",
		"-kernel", s.Image.Kernel, "-initrd", s.Initrd,
		"-append", "console=ttyS0 rdinit=" + images.AgentPath + " " + images.KernelArgs,
		"-drive", "file=" + s.Image.Root + ",format=raw,if=virtio,readonly=on", "-device", "virtio-serial-pci",
		"-chardev", "socket,id=engine,fd=3", "-device", "virtserialport,chardev=engine,name=" + proto.EnginePort,
	}
}

// pair is the line to the agent: two ends of a socket that has no name, so that
// nobody else reaches it and nothing is left of it.
func pair() (near net.Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "agent")
	defer ours.Close()
	far = os.NewFile(uintptr(fds[1]), "port")
	if near, err = net.FileConn(ours); err != nil {
		far.Close()
	}
	return near, far, err
}

// identity says whom to expect at the other end, with keys that nobody keeps.
func identity(node string, line net.Conn) (client.DialSpec, error) {
	own, err := client.NewKey("")
	if err != nil {
		return client.DialSpec{}, err
	}
	host, err := client.NewKey("")
	if err != nil {
		return client.DialSpec{}, err
	}
	var once sync.Once
	return client.DialSpec{
		Node: node, ClientKey: own.Private, HostKey: host.Public,
		Enrol: &proto.Enrol{Hostname: "lvslab", HostKey: host.Private},
		Open: func(context.Context) (c net.Conn, err error) {
			err = diag.Fail(nil, "The machine is gone", "Try again.", "its line has ended") // a second time
			once.Do(func() { c, err = line, nil })
			return c, err
		},
	}, nil
}

// runBound starts QEMU so that it ends with this process: the kernel kills it when
// the thread that started it ends, and that waits for it. A session of its own
// keeps the terminal's Ctrl-C from it, which is answered by [Machine.Stop].
func runBound(args []string, port *os.File) *qemu {
	ctx, kill := context.WithCancel(context.Background())
	ended, end := context.WithCancel(context.Background())
	q := &qemu{console: &tail{}, kill: kill, ended: ended}
	go func() {
		defer end()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, hypervisor.Emulator, args...)
		cmd.Stdout, cmd.Stderr = q.console, q.console
		cmd.ExtraFiles = []*os.File{port}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
		q.failed = cmd.Start()
		_ = port.Close() // or the line would not end with QEMU
		if q.failed == nil {
			_ = cmd.Wait()
		}
	}()
	return q
}

// tailBytes is how much of the console is kept.
const tailBytes = 8 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu      sync.Mutex
	text    []byte
	written int64
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text, t.written = append(t.text, b...), t.written+int64(len(b))
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

// shown is how many lines of a console an error shows.
const shown = 20

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for line := range strings.Lines(strings.ReplaceAll(string(t.text), "\r", "")) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			all = append(all, line)
		}
	}
	return all[max(0, len(all)-shown):]
}
