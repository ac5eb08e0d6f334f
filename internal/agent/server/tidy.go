package server

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerTidy(s *Server) { s.preparations[proto.PrepareMemory] = tidyMemory }

// keepFree is what tidyMemory leaves alone, bytes: the kernel must not start
// to reclaim for its sake.
const keepFree = 6 << 20

var memFree = regexp.MustCompile(`(?m)^MemFree: +(\d+) kB$`)

// tidyMemory makes a guest cheap to save and to clone: the pages in use are
// moved together (vm.compact_memory), and what the boot has used and freed is
// overwritten with zeros. A page of zeros is not saved, and a large page of the
// host that would hold nothing else is not touched when a clone is restored.
func tidyMemory(context.Context) error {
	if err := os.WriteFile(procSys+"vm/compact_memory", []byte("1"), 0o200); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("compact the memory: %w", err)
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	m := memFree.FindSubmatch(text)
	if m == nil {
		return fmt.Errorf("/proc/meminfo does not say what is free")
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return err
	}
	size := kib<<10 - keepFree
	if size <= 0 {
		return nil
	}
	// The kernel hands out pages of zeros; to have them, they must be written to.
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("overwrite what is free: %w", err)
	}
	return unix.Munmap(b)
}
