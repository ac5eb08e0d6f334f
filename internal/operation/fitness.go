package operation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// fitness checks whether this machine can hold the lab, before anything is
// made: a missing program, no root, a directory that cannot be written or too
// little memory is found here and not by the fourth of five machines.
func (a *applying) fitness() error {
	if err := junitFits(a.opts.JUnit); err != nil {
		a.opts.JUnit = "" // nor can it tell of this failure
		return err
	}
	var errs []error
	if a.embedded() {
		errs = append(errs, hypervisor.Ready())
	}
	errs = append(errs, a.places())
	if err := errors.Join(errs...); err != nil || !a.embedded() {
		return err
	}
	have, limited, err := hypervisor.MemoryAvailable()
	if err != nil {
		return nil // what can't be read is not held against the lab
	}
	return memoryFor(a.yetToStart(context.Background()), have, limited)
}

// What must be free where something is written: the state and the consoles of
// a lab are a few hundred kB. A run of 1,000 queries leaves 130 kB, and 700 kB
// with its captures.
const (
	labSpace   = 4 << 20
	runSpace   = 64 << 10 // and for each query:
	querySpace = 128
	pcapSpace  = 600
)

// places checks the directories that this apply will write to.
func (a *applying) places() error {
	err := writable("the lab's directory", a.dir, labSpace,
		"Give write permission there, or copy the topology to where you may write: the lab's directory is beside it.")
	if len(a.study.topology.Experiments) == 0 || a.opts.noStudy() {
		return err
	}
	list, terr := a.study.trials(nil, "")
	if terr != nil {
		return errors.Join(err, terr)
	}
	return errors.Join(err, writable("the results", a.opts.Results, labSpace+a.resultSpace(list.trials), "Give write permission there, or name another directory with --results DIR."))
}

// resultSpace is the most that the runs will write, in bytes.
func (a *applying) resultSpace(trials []experiment.Trial) uint64 {
	need := uint64(0)
	for _, t := range trials {
		s := t.Treatment.Setting
		perQuery := querySpace
		if e, ok := a.experiment(t.Experiment); ok && e.Capture {
			perQuery += pcapSpace
		}
		need += runSpace + uint64(s.Queries*max(1, s.Clients)*perQuery)
	}
	return need
}

func (a *applying) experiment(name string) (lang.Experiment, bool) {
	for _, e := range a.study.topology.Experiments {
		if e.Noun.Name() == name {
			return e, true
		}
	}
	return lang.Experiment{}, false
}

// writable checks that a directory can be made and written and has room, and
// makes nothing: it asks the nearest directory above that exists.
func writable(what, dir string, need uint64, remedy string) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && at != "/" {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return diag.Fail(err, "Cannot write "+what, remedy, "%s", at)
	}
	var st unix.Statfs_t
	if unix.Statfs(at, &st) != nil {
		return nil // the write will tell
	}
	if free := st.Bavail * uint64(st.Bsize); free < need {
		return diag.Fail(syscall.ENOSPC, "Not enough disk space for "+what,
			"Free some space there, for example old results.", "%s has %s free, up to %s are needed", at, mib(free), mib(need))
	}
	return nil
}

// yetToStart lists the machines that do not run yet: the memory of the others
// is missing already from what is available.
func (a *applying) yetToStart(ctx context.Context) []lang.Machine {
	all := a.study.topology.Machines
	h, status, err := hypervisor.Find(ctx, a.prior.Lineage)
	if err != nil || h == nil || status != hypervisor.Running {
		return all
	}
	recorded := a.state()
	var out []lang.Machine
	for _, m := range all {
		if r, ok := recorded.Resource(addr.Resource{Noun: m.Noun, Part: schema.TypeDomain}); !ok || r.Status == state.Tainted {
			out = append(out, m)
		}
	}
	return out
}

// memoryFor compares what the machines may come to use with what there is.
func memoryFor(machines []lang.Machine, have uint64, limited bool) error {
	need, largest := uint64(0), lang.Machine{}
	for _, m := range machines {
		need += uint64(m.Memory + libvirt.MemoryOverhead)
		if m.Memory > largest.Memory {
			largest = m
		}
	}
	if have >= need {
		return nil
	}
	of := "this machine has"
	if limited {
		of = "below the limit of this control group are"
	}
	f := diag.Fail(nil, "Too little memory for the lab",
		"Give machines less memory, declare fewer of them, or end other programs and labs.",
		"%d machines need up to %s, %s %s available; the largest is %s with %s",
		len(machines), mib(need), of, mib(have), largest.Noun, mib(uint64(largest.Memory)))
	f.Diagnostic = f.Diagnostic.For(largest.Noun.String())
	return f
}

func mib(b uint64) string { return fmt.Sprintf("%d MiB", b>>20) }
