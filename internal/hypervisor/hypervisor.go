// Package hypervisor is the embedded default hypervisor: one holder process
// per lab that runs a private libvirtd, and with it QEMU, in mount, network,
// PID, IPC and UTS namespaces of its own.
//
// Killing the holder removes everything that the lab had on this machine:
// processes, bridges, taps, sockets and configuration. What proves that it is
// gone is the holder's entry in the machine's registry (see [List]): an entry
// whose lock is free and whose process has ended has nothing left inside.
//
// The package starts itself again as the holder. A program that calls [Start]
// must call [Main] first thing in main, a test binary in TestMain.
package hypervisor

import (
	"os"
	"time"
)

// Protocol is the version of what a holder promises to the programs that use
// it: the layout of its private /run and the meaning of its registry entry. A
// lab that was started by another protocol can be stopped and nothing else.
const Protocol = 1

// Identity says whose holder it is.
type Identity struct {
	// Lineage is the lab's random id; it is unique on the machine.
	Lineage string `json:"lineage"`
	// Lab is the lab's name as written in the topology, for messages.
	Lab string `json:"lab"`
	// LabDir is the lab's directory, absolute. The only directory of the host
	// that the VMs can write to.
	LabDir string `json:"lab_dir"`
	// UID and GID own the files that are made in LabDir: the user who called
	// sudo, not root.
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Holder is one running hypervisor. It is the root resource in a lab's state:
// plain data, to be stored as JSON and used by a later process.
type Holder struct {
	// PID is the holder's process id on the host; it is PID 1 inside.
	PID int `json:"pid"`
	// StartTime is field 22 of /proc/PID/stat, in clock ticks since boot. With
	// BootID it tells the process from a later one with the same number.
	StartTime uint64 `json:"start_time"`
	// BootID is the host's /proc/sys/kernel/random/boot_id.
	BootID   string `json:"boot_id"`
	Protocol int    `json:"protocol"`
	Lineage  string `json:"lineage"`
	Lab      string `json:"lab"`
	LabDir   string `json:"lab_dir"`
	// Accelerator is what the VMs inside can use.
	Accelerator Accelerator `json:"accelerator"`
	// StarterPID and StarterStartTime are the process that a bound holder ends
	// with, as PID and StartTime are the holder's; 0 for one that outlives it.
	StarterPID       int    `json:"starter_pid,omitempty"`
	StarterStartTime uint64 `json:"starter_start_time,omitempty"`

	// bond is the pipe whose end ends a bound holder.
	bond *os.File
}

// Status is what is known about a holder.
type Status string

// The three states of a holder. Silent is an error and never means "gone": its
// lock is held, so something of the lab may still be alive.
const (
	Running Status = "running"
	Gone    Status = "gone"
	Silent  Status = "silent"
)

// Accelerator is how QEMU runs guest code.
type Accelerator string

// The two accelerators: the processor's virtualization and QEMU's emulation.
const (
	KVM Accelerator = "kvm"
	TCG Accelerator = "tcg"
)

// Options say what [Start] shall start.
type Options struct {
	Identity
	// CacheDir is lvslab's cache directory of the user. What libvirt learns
	// about QEMU is kept there, so that the next lab need not ask again.
	CacheDir string
	// Accelerator decides whether /dev/kvm exists inside. Empty means TCG.
	Accelerator Accelerator
	// Visible lists directories of the host below /etc, /run or /var that the
	// VMs must read, images for example. All else below these three is hidden;
	// LabDir and CacheDir need not be listed.
	Visible []string
	// Bound ends the holder, with all that is in it, when its starter ends or has
	// dropped the [Holder]: for work that nobody would come back to.
	Bound bool
	// Bond is the reading end of a pipe, or nil. The holder, with all that is in it,
	// ends when every writing end is closed, as by the end of their processes. The
	// caller keeps one, and closes Bond itself. For a lab that outlives the [Holder]
	// but not the process that asked for it; not together with Bound.
	Bond *os.File `json:"-"`
	// Progress, when not nil, is told about each step that is done: "namespaces",
	// "libvirtd", with the time since the start.
	Progress func(step string, since time.Duration) `json:"-"`
}

// Names of the files that a holder leaves in LabDir.
const (
	// LogName holds what the holder and its libvirtd said.
	LogName = "holder.log"
)
