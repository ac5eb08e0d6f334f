package operation

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// demand is what the changes and trials of a plan take of this machine, beside
// what it has. Sizes are bytes; 0 of what the machine has means not known.
type demand struct {
	Machines    int     `json:"machines"` // that are to be created
	Memory      uint64  `json:"memory_bytes"`
	MemoryHave  uint64  `json:"memory_available_bytes,omitempty"`
	Cores       int     `json:"virtual_cores"`
	CoresHave   int     `json:"cores"`
	Disk        uint64  `json:"disk_bytes"`
	DiskHave    uint64  `json:"disk_free_bytes,omitempty"`
	DiskAt      string  `json:"disk"`
	Seconds     float64 `json:"startup_estimate_s"`
	How         string  `json:"startup"`
	Accelerator string  `json:"accelerator"`
	Why         string  `json:"accelerator_reason"`
	Parallelism int     `json:"parallelism"`
}

// What the machines' start takes, in seconds of one core, measured with five
// machines on two cores under emulation; those for KVM are guesses on the
// safe side from the time that one kernel takes.
const (
	bootTCG, bootKVM         = 5.0, 2.0
	diskTCG, diskKVM         = 70.0, 25.0 // of a distribution's disk, cloud-init and all
	cloneTCG, cloneKVM       = 0.6, 0.4
	templateTCG, templateKVM = 5.0, 3.0 // seconds for each that has to be made first
	imageSeconds             = 20.0
)

// demand finds it, nil when the plan creates no machine and measures nothing.
func (a *applying) demand() *demand {
	domains := a.newDomains()
	if len(domains) == 0 && len(a.todo) == 0 {
		return nil
	}
	n := &demand{
		Machines: len(domains), CoresHave: runtime.GOMAXPROCS(0), Disk: labSpace, DiskAt: a.dir,
		Accelerator: string(a.accel), Why: a.accelWhy, Parallelism: a.parallelism(),
	}
	for _, d := range domains {
		n.Memory += uint64(d.Memory + libvirt.Overhead(d))
		n.Cores += d.VCPUs
	}
	if a.far() {
		n.CoresHave, n.MemoryHave = max(1, a.farHas.Cores), a.farHas.memory
	} else if have, _, err := hypervisor.MemoryAvailable(); err == nil {
		n.MemoryHave = have
	}
	if len(a.todo) > 0 {
		n.Disk += a.resultSpace(a.todo)
		if abs, err := filepath.Abs(a.opts.Results); err == nil {
			n.DiskAt = abs
		}
	}
	n.DiskHave = freeAt(n.DiskAt)
	a.startup(n, domains)
	return n
}

// startup estimates how long the machines take to come up.
func (a *applying) startup(n *demand, domains []schema.Domain) {
	boot, clone, template := bootTCG, cloneTCG, templateTCG
	if a.accel == hypervisor.KVM {
		boot, clone, template = bootKVM, cloneKVM, templateKVM
	}
	cloned, missing := a.clonesAhead(domains)
	booted := len(domains) - cloned
	work := float64(booted)*boot + float64(cloned)*clone
	longest := boot
	if booted == 0 {
		longest = clone
	}
	if own := withOwnDisk(domains); own > 0 {
		whole := diskTCG
		if a.accel == hypervisor.KVM {
			whole = diskKVM
		}
		work, longest = work+float64(own)*(whole-boot), whole
	}
	var how []string
	switch missing := a.missingGuests(); {
	case missing == 1:
		n.Seconds += imageSeconds
		how = append(how, "the image is built first")
	case missing > 1:
		n.Seconds += float64(missing) * imageSeconds
		how = append(how, fmt.Sprintf("%d images are built first", missing))
	}
	if missing > 0 {
		n.Seconds += float64(missing) * template
		how = append(how, fmt.Sprintf("%s made first", count(missing, "template")))
	}
	if cloned > 0 {
		how = append(how, fmt.Sprintf("%d cloned", cloned))
	}
	if booted > 0 {
		how = append(how, fmt.Sprintf("%d booted", booted))
	}
	if len(domains) > 0 {
		n.Seconds += max(longest, work/float64(n.CoresHave))
	}
	n.Seconds, n.How = math.Ceil(n.Seconds), strings.Join(how, ", ")
}

// withOwnDisk is how many machines boot from a disk of the user's.
func withOwnDisk(domains []schema.Domain) (n int) {
	for _, d := range domains {
		if d.Disk != "" {
			n++
		}
	}
	return n
}

// clonesAhead says how many of the machines will be cloned, and how many
// templates are to be made for that.
func (a *applying) clonesAhead(domains []schema.Domain) (cloned, missing int) {
	if a.worldErr != nil {
		return 0, 0
	}
	t := &templates{serve: map[string]bool{}}
	cold := map[string]bool{}
	for _, m := range a.study.topology.Machines {
		id := a.identity(m.Noun.String())
		t.serve[id], cold[id] = runsNamed(m), a.bootsCold(m)
	}
	var seen []templateKind
	for i, d := range append(slices.Clone(domains), a.renewedDomains()...) {
		if cold[d.Address] {
			continue
		}
		if i < len(domains) {
			cloned++
		}
		for _, k := range t.kindOf(d).chain() {
			if slices.Contains(seen, k) {
				continue
			}
			seen = append(seen, k)
			if !a.haveTemplate(k, d) {
				missing++
			}
		}
	}
	return cloned, missing
}

// haveTemplate reports whether the cache has the template of a kind; what
// cannot be said counts as no.
func (a *applying) haveTemplate(k templateKind, d schema.Domain) bool {
	key, err := a.templateKey(k, d)
	img := a.imageOf(d)
	if err != nil || img.Key == "" {
		return false
	}
	_, ok, err := images.FindTemplate(a.cache, img.Key, key)
	return ok && err == nil
}

// chain lists a kind after the one that it is made of.
func (k templateKind) chain() []templateKind {
	if !k.named {
		return []templateKind{k}
	}
	plain := k
	plain.named = false
	return []templateKind{plain, k}
}

// bootsCold reports whether a machine is booted whatever there is to clone.
func (a *applying) bootsCold(m lang.Machine) bool { return a.whyCold(m) != "" }

// text is the demand for people.
func (n *demand) text() string {
	var b strings.Builder
	b.WriteString("Needs:\n")
	line := func(what, need, have string) {
		fmt.Fprintf(&b, "  %-7s %-38s %s\n", what, need, have)
	}
	has := func(v uint64, format string) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf(format, size(v))
	}
	if n.Machines > 0 {
		line("memory", fmt.Sprintf("up to %s for %s", size(n.Memory), count(n.Machines, "machine")), has(n.MemoryHave, "%s available"))
		line("cores", fmt.Sprintf("%d virtual, %d at once", n.Cores, min(n.Parallelism, n.Machines)), fmt.Sprintf("%d here, by %s: %s", n.CoresHave, n.Accelerator, n.Why))
	}
	line("disk", "up to "+size(n.Disk), has(n.DiskHave, "%s free in "+shownPath(n.DiskAt)))
	if n.Machines > 0 {
		line("time", fmt.Sprintf("about %.0f s until the machines run", n.Seconds), n.How)
	}
	return strings.TrimRight(b.String(), " \n")
}

// short says why this machine is too small for the plan, nil when it is not.
func (a *applying) short(ctx context.Context) error {
	if !a.embedded() || len(a.newDomains()) == 0 {
		return nil
	}
	have, limited, err := hypervisor.MemoryAvailable()
	if err != nil {
		return nil
	}
	return memoryFor(a.yetToStart(ctx), have, limited)
}

// freeAt is the free space of the file system of a path, or of the nearest
// directory above it that exists, in bytes; 0 when it cannot be read.
func freeAt(path string) uint64 {
	var st unix.Statfs_t
	for unix.Statfs(path, &st) != nil {
		up := filepath.Dir(path)
		if up == path {
			return 0
		}
		path = up
	}
	return st.Bavail * uint64(st.Bsize)
}

// size writes bytes for people.
func size(b uint64) string {
	if b >= 10<<30 {
		return fmt.Sprintf("%.0f GiB", float64(b)/(1<<30))
	}
	if b >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30))
	}
	return mib(b)
}

// count says a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
