package images

import (
	"os"

	"golang.org/x/sys/unix"
)

// isOpen reports whether any process of this machine has a file open or mapped, as
// far as the kernel tells: it gives a write lease only to the one who has the only
// open file (fcntl(2), F_SETLEASE). It tells the owner of the file and root, on file
// systems of this machine; else the answer is no.
func isOpen(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // which gives a lease back, too
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return err == unix.EAGAIN
}
