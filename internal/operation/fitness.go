package operation

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/provider/libvirt"
)

// fitness checks whether this machine can hold the lab, before anything is
// made: a missing program, no root, or too little memory is found here and not
// by the fourth of five machines.
func (a *applying) fitness() error {
	if !a.embedded() {
		return nil
	}
	if err := hypervisor.Ready(); err != nil {
		return err
	}
	return a.memory()
}

func (a *applying) memory() error {
	need := int64(0)
	for _, m := range a.study.topology.Machines {
		need += m.Memory + libvirt.MemoryOverhead
	}
	have, err := memAvailable()
	if err != nil || have >= need {
		return nil // what can't be read is not held against the lab
	}
	return diag.Fail(nil, "Too little memory for the lab",
		"Give machines less memory, declare fewer of them, or end other programs.",
		"%d machines need up to %s, this machine has %s available", len(a.study.topology.Machines), mib(need), mib(have))
}

func mib(b int64) string { return fmt.Sprintf("%d MiB", b>>20) }

// memAvailable is the kernel's own estimate of what can be used without
// swapping, bytes.
func memAvailable() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, os.ErrNotExist
}
