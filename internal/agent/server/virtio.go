package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// virtioPorts is where the kernel lists its virtio-serial ports. The number in
// a device's name varies between boots (vport0p1, vport1p1), the port's name
// below does not.
const virtioPorts = "/sys/class/virtio-ports"

// FindPort returns the device of the virtio-serial port with that name, and
// whether there is one yet.
func FindPort(name string) (device string, found bool) { return findPort(virtioPorts, name) }

func findPort(class, name string) (string, bool) {
	entries, err := os.ReadDir(class)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(class, e.Name(), "name"))
		if err == nil && strings.TrimSpace(string(text)) == name {
			return "/dev/" + e.Name(), true
		}
	}
	return "", false
}

// VirtioPort is one virtio-serial port of the guest.
type VirtioPort struct {
	name string
	file *os.File
}

// OpenVirtioPort opens a port's device. Only one process can have it open.
func OpenVirtioPort(name, device string) (*VirtioPort, error) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", name, err)
	}
	return &VirtioPort{name: name, file: f}, nil
}

// Name returns the port's name.
func (p *VirtioPort) Name() string { return p.name }

// hostCheck is how often a port without a host is looked at even when the
// kernel woke nobody. Its waking is edge-triggered here, and a guest that was
// saved and restored may have missed the edge.
const hostCheck = time.Second

var errNoHost = errors.New("no host on the port")

// Accept waits until a host has the port open. While none has, reading returns
// 0 bytes at once and poll reports POLLHUP (drivers/char/virtio_console.c), so
// readiness alone would spin; the wait is for the next edge instead.
func (p *VirtioPort) Accept(ctx context.Context) (io.ReadWriteCloser, error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for ctx.Err() == nil {
		if err := p.file.SetDeadline(time.Now().Add(hostCheck)); err != nil {
			return nil, err
		}
		var poll error
		err := raw.Read(func(fd uintptr) bool {
			poll = pollHost(int(fd))
			return !errors.Is(poll, errNoHost)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return nil, err
		case poll != nil:
			return nil, poll
		}
		if err := p.file.SetDeadline(time.Time{}); err != nil {
			return nil, err
		}
		return &portVisit{file: p.file}, nil
	}
	return nil, ctx.Err()
}

func pollHost(fd int) error {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLOUT}}
		_, err := unix.Poll(fds, 0)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case fds[0].Revents&unix.POLLHUP != 0:
			return errNoHost
		}
		return nil
	}
}

// portVisit is one host's stay. Its end must reach a writer that waits too:
// writing to a port without a host blocks until the next one comes.
type portVisit struct {
	file *os.File
	mu   sync.Mutex // held while reading, so that Close knows when the reader is out
	once sync.Once
	done bool
}

func (v *portVisit) Read(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return 0, io.ErrClosedPipe
	}
	n, err := v.file.Read(b)
	if err != nil {
		v.done = true
		v.expire()
	}
	return n, err
}

func (v *portVisit) Write(b []byte) (int, error) { return v.file.Write(b) }

func (v *portVisit) expire() { _ = v.file.SetDeadline(time.Unix(1, 0)) }

// Close ends pending reads and writes by a deadline in the past and waits until
// the reader is out: the next visit clears the deadline.
func (v *portVisit) Close() error {
	v.once.Do(func() {
		v.expire()
		v.mu.Lock()
		v.done = true
		v.mu.Unlock()
	})
	return nil
}
