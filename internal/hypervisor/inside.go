package hypervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The hidden first arguments. The second one is the lineage, for people who
// look at a list of processes.
const (
	argInit   = "__holder-init"
	argHolder = "__holder"
)

// The files that init and holder are started with, in the order of ExtraFiles.
const (
	fdOrder  = 3 // JSON of Options; its end is the permission to begin
	fdLock   = 4 // the registry entry, locked
	fdReport = 5 // one JSON report back to the starter
	fdBond   = 6 // with argBound: ends when the starter does
)

// argBound after the lineage says that there is fdBond.
const argBound = "bound"

// report is what the holder tells its starter once.
type report struct {
	Error string `json:"error,omitempty"`
	// Stage is what failed: "namespaces" or "libvirtd".
	Stage string `json:"stage,omitempty"`
}

// Main turns this process into a holder when it was started as one, and then
// never returns. Otherwise it does nothing.
func Main() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case argInit:
		os.Exit(initMain())
	case argHolder:
		os.Exit(holderMain())
	case argTrial:
		os.Exit(trialMain())
	}
}

// initMain is PID 1 of the lab. It starts the real program and from then on
// only reaps: QEMU daemonizes and is adopted by PID 1, and where nobody reaps,
// libvirt waits 16 s for each dead QEMU to vanish. It must not do more, because
// a wait4(-1) beside os/exec steals the exit statuses that os/exec waits for.
func initMain() int {
	nameProcess()
	debug.SetGCPercent(10)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		logf("asked to end")
		os.Exit(0) // the kernel kills everything else in this namespace
	}()
	if len(os.Args) > 3 && os.Args[3] == argBound {
		syscall.CloseOnExec(fdBond)
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(fdBond, "bond"))
			logf("its starter has ended")
			os.Exit(0)
		}()
	}
	child, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], argHolder, os.Args[2]}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, fdOrder, fdLock, fdReport},
	})
	if err != nil {
		logf("start the holder: %v", err)
		return 1
	}
	_ = syscall.Close(fdOrder)
	_ = syscall.Close(fdReport) // or its reader would not see the holder die
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			logf("wait: %v", err)
			return 1
		case pid == child && ws.Signaled():
			logf("holder killed by signal %d", ws.Signal())
			return 128 + int(ws.Signal())
		case pid == child && ws.Exited():
			return ws.ExitStatus()
		}
	}
}

// nameProcess sets what ps and top show; it would be "exe", from /proc/self/exe.
// A failure changes nothing else.
func nameProcess() { _ = os.WriteFile("/proc/self/comm", []byte("lvslab-holder"), 0) }

// holderMain makes the namespaces private, runs libvirtd and ends with it.
func holderMain() int {
	nameProcess()
	for _, fd := range []int{fdOrder, fdLock, fdReport} {
		syscall.CloseOnExec(fd)
	}
	out := os.NewFile(fdReport, "report")
	tell := func(r report) {
		_ = json.NewEncoder(out).Encode(r) // a starter that has died reads nothing
		out.Close()
	}
	order := os.NewFile(fdOrder, "order")
	text, err := io.ReadAll(order)
	order.Close()
	var o Options
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		// The starter died before it had registered this lab.
		logf("no order: %v", err)
		return 1
	}
	logf("lab %s, lineage %s, accelerator %s", o.Lab, o.Lineage, o.Accelerator)
	if err := enter(o); err != nil {
		logf("%v", err)
		tell(report{Error: err.Error(), Stage: "namespaces"})
		return 1
	}
	cmd := exec.Command(libvirtd, "--config", "/etc/libvirt/libvirtd.conf")
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = os.Stdout, os.Stderr, libvirtdEnv(), "/"
	if err := cmd.Start(); err != nil {
		logf("start libvirtd: %v", err)
		tell(report{Error: err.Error(), Stage: "libvirtd"})
		return 1
	}
	tell(report{})
	err = cmd.Wait()
	logf("libvirtd ended: %v; the lab ends with it", ended(err, cmd.ProcessState))
	return 1
}

func ended(err error, st *os.ProcessState) string {
	if err != nil {
		return err.Error()
	}
	return st.String()
}

// enter makes this process's namespaces the lab's.
func enter(o Options) error {
	runtime.LockOSThread()
	unix.Umask(0o022)
	if err := privateFiles(o); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(hostname(o.Lineage))); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return privateNetwork()
}

// privateNetwork brings up lo, the only link. IPv6 is switched off for the
// bridges and taps to come: each would otherwise send router solicitations and
// multicast reports into the measured network.
func privateNetwork() error {
	for _, key := range []string{"all", "default"} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+key+"/disable_ipv6", []byte("1"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("switch IPv6 off: %w", err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// logf writes one line to the holder's log, which is its standard error.
func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().UTC().Format("2006-01-02T15:04:05.000Z")+" holder: "+format+"\n", args...)
}
