package server

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// The ioctls of /dev/urandom, <linux/random.h>: _IOW('R', 0x03, int[2]) and _IO('R', 0x07).
const (
	rndAddEntropy  = 0x40085203
	rndReseedCRNG  = 0x5207
	maxEntropy     = 512 // bytes in one ioctl
	minEntropyBits = 256 // what the kernel needs to call its generator ready
)

// SeedKernel makes the running kernel one of its own: entropy credited and the
// generator reseeded (clones of one saved boot would draw the same numbers
// otherwise), the clock set (it stands at the moment of saving), the host name,
// the address of the network card.
func SeedKernel(e proto.Enrol) error {
	if err := addEntropy(e.Entropy); err != nil {
		return fmt.Errorf("entropy: %w", err)
	}
	tv := unix.NsecToTimeval(e.Time.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	if err := unix.Sethostname([]byte(e.Hostname)); err != nil {
		return fmt.Errorf("host name %q: %w", e.Hostname, err)
	}
	if err := adoptCard(e.MAC); err != nil {
		return fmt.Errorf("address %s of the network card: %w", e.MAC, err)
	}
	return nil
}

func addEntropy(entropy []byte) error {
	if len(entropy)*8 < minEntropyBits || len(entropy) > maxEntropy {
		return fmt.Errorf("%d bytes given, want %d to %d", len(entropy), minEntropyBits/8, maxEntropy)
	}
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info { int entropy_count; int buf_size; __u32 buf[]; }
	var info struct {
		bits, size int32
		buf        [maxEntropy]byte
	}
	info.bits, info.size = int32(len(entropy)*8), int32(len(entropy))
	copy(info.buf[:], entropy)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), rndAddEntropy, uintptr(unsafe.Pointer(&info))); errno != 0 {
		return errno
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), rndReseedCRNG, 0); errno != 0 {
		return errno
	}
	return nil
}
