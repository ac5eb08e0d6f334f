package operation

import (
	"runtime"

	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider/libvirt"
)

// The bounds of how much is done at once. Each call waits for a guest most of
// the time, so there are more of them than cores; under emulation the guest's
// work is the host's, and a guest that gets no time is taken for a hung one.
const (
	leastParallel  = 2
	mostParallel   = 64
	perCoreTCG     = 5 // on two cores the ten that every lab was measured with
	perCoreKVM     = 10
	defaultMachine = 256 << 20 // bytes, where no machine is declared
)

// parallelism is how many calls may be in flight: as the user says, else by
// cores, memory and accelerator.
func (a *applying) parallelism() int {
	if a.opts.Parallelism > 0 {
		return a.opts.Parallelism
	}
	free, _, err := hypervisor.MemoryAvailable()
	if err != nil {
		free = 0
	}
	var machines []lang.Machine
	if a.study.topology != nil {
		machines = a.study.topology.Machines
	}
	cores := runtime.GOMAXPROCS(0)
	if a.study.topology != nil && a.far() {
		cores, free = max(1, a.farHas.Cores), a.farHas.memory
	}
	return parallelFor(cores, free, a.accel, machines)
}

// parallelFor bounds calls by cores and by the machines that memory could hold
// at once: each call may be one that starts a machine. free is in bytes, 0 when
// it is not known.
func parallelFor(cores int, free uint64, accel hypervisor.Accelerator, machines []lang.Machine) int {
	n := cores * perCoreTCG
	if accel == hypervisor.KVM {
		n = cores * perCoreKVM
	}
	largest := int64(defaultMachine)
	for _, m := range machines {
		largest = max(largest, m.Memory)
	}
	if free > 0 {
		n = min(n, int(free/uint64(largest+libvirt.MemoryOverhead)))
	}
	return min(max(n, leastParallel), mostParallel)
}
