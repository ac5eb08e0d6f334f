package hypervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// BootID returns the id of the host's current boot.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the host's boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
})

// procStat is what /proc/PID/stat says about the life of a process (proc(5)).
type procStat struct {
	state     byte   // field 3, of the thread group's leader
	threads   int    // field 20
	startTime uint64 // field 22, clock ticks since boot
}

// ended reports whether the process has left only its exit status. The last
// thread of a namespace's PID 1 waits, before it ends, until every other
// process of the namespace is dead and reaped (zap_pid_ns_processes,
// linux/kernel/pid_namespace.c). The leader alone may be a zombie long before:
// seen as a "stop" that took 0.7 ms with everything inside still alive.
func (s procStat) ended() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

// parseStat parses the text of /proc/PID/stat. The command name stands in
// parentheses and may itself hold spaces and parentheses, so fields are
// counted from the last closing one.
func parseStat(text []byte) (procStat, error) {
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return procStat{}, errors.New("process status without a command name")
	}
	fields := strings.Fields(string(text[i+1:]))
	const stateField, threadsField, startField = 3 - 3, 20 - 3, 22 - 3
	if len(fields) <= startField || len(fields[stateField]) != 1 {
		return procStat{}, fmt.Errorf("process status with %d fields after the command name", len(fields))
	}
	threads, err := strconv.Atoi(fields[threadsField])
	if err != nil {
		return procStat{}, fmt.Errorf("process threads: %w", err)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("process start time: %w", err)
	}
	return procStat{state: fields[stateField][0], threads: threads, startTime: start}, nil
}

// readStat returns fs.ErrNotExist (wrapped) when there is no such process.
func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) {
		err = fs.ErrNotExist // the process ended between open and read
	}
	if err != nil {
		return procStat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return parseStat(text)
}

// alive reports whether exactly this process still runs. An error means that
// it is not known.
func alive(pid int, startTime uint64, boot string) (bool, error) {
	now, err := bootID()
	if err != nil {
		return false, err
	}
	if boot != now {
		return false, nil
	}
	st, err := readStat(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return st.startTime == startTime && !st.ended(), nil
}

// Alive reports whether the holder's process still runs. An error means that
// it is not known.
func (h *Holder) Alive() (bool, error) { return alive(h.PID, h.StartTime, h.BootID) }

// Bound reports whether the holder was started to end with its starter.
func (h *Holder) Bound() bool { return h.StarterPID != 0 }

// StarterAlive reports whether the process that a bound holder ends with still
// runs. An error means that it is not known.
func (h *Holder) StarterAlive() (bool, error) {
	return alive(h.StarterPID, h.StarterStartTime, h.BootID)
}
