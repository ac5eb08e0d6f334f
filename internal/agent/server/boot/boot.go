// Package boot makes a running guest of a kernel and a root image: it is what
// the agent does as PID 1, before and beside the agent proper. It runs from the
// initramfs, mounts the read-only root with a layer of RAM above it, and then
// only reaps: the real program is its child, since a wait4(-1) loop beside
// os/exec would take exit statuses away from it.
package boot

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// ServeArgument tells the agent that it is the child of PID 1.
const ServeArgument = "serve"

// Init is the life of PID 1. It does not return.
func Init() {
	defer func() {
		if p := recover(); p != nil {
			fatal(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if err := earlyMounts(); err != nil {
		fatal(err)
	}
	if err := loadModules(moduleList); err != nil {
		fatal(err)
	}
	if err := switchRoot(); err != nil {
		fatal(err)
	}
	fatal(supervise())
}

// Say writes one line to the console.
func Say(line string) { _, _ = fmt.Fprintf(os.Stderr, "lvslab-agent: %s\n", line) }

// fatal says why and turns the machine off. The console needs a moment: what is
// in the serial port's buffer is lost with the machine.
func fatal(err error) {
	Say("fatal: " + err.Error())
	time.Sleep(200 * time.Millisecond)
	powerOff(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func powerOff(how int) {
	unix.Sync()
	_ = unix.Reboot(how)
	select {} // PID 1 must not end: the kernel would panic
}

// supervise starts the agent and reaps until it ends.
func supervise() error {
	orders := make(chan os.Signal, 4)
	// What busybox's reboot, poweroff and halt send to PID 1.
	signal.Notify(orders, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	go func() {
		if <-orders == unix.SIGTERM {
			powerOff(unix.LINUX_REBOOT_CMD_RESTART)
		}
		powerOff(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}()
	// The file of this program has gone with the initramfs, the link still leads
	// to it. Both processes share its pages.
	agent, err := os.StartProcess("/proc/self/exe", []string{"lvslab-agent", ServeArgument}, &os.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"},
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		case pid == agent.Pid && status.Signaled():
			return fmt.Errorf("the agent was killed by signal %d", status.Signal())
		case pid == agent.Pid:
			return fmt.Errorf("the agent ended with status %d", status.ExitStatus())
		}
	}
}
