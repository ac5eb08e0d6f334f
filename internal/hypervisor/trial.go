package hypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// argTrial makes this program try, in namespaces that end with it, what a
// holder does, and print the checks as JSON.
const argTrial = "__holder-trial"

const trialTimeout = 10 * time.Second

// checkNamespaces runs the trial.
func checkNamespaces(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", argTrial)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
		syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	out, err := cmd.Output()
	var list []Check
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		remedy := "In a container, start it with --privileged, or use the machine itself."
		if os.Geteuid() != 0 {
			remedy = "Run lvslab with sudo."
		}
		return []Check{{Name: "namespaces", Level: Fail, Detail: err.Error(), Remedy: remedy}}
	}
	return list
}

// trial is one thing that a holder must be able to do.
type trial struct {
	name, good, remedy string
	do                 func() error
}

func trials() []trial {
	return []trial{
		{"namespaces", "mount, network, PID, IPC and UTS namespaces can be made", "", func() error { return nil }},
		{"mounts", "proc, sysfs and tmpfs can be mounted in them",
			"In a container, start it with --privileged, or use the machine itself.", tryMounts},
		{"bridge", "the kernel makes bridges", "Load the module: modprobe bridge.", tryBridge},
		{"tun", "the kernel makes taps", "Load the module: modprobe tun; in a container, pass /dev/net/tun in.", tryTap},
	}
}

func trialMain() int {
	runtime.LockOSThread()
	var list []Check
	for _, t := range trials() {
		c := Check{Name: t.name, Level: OK, Detail: t.good}
		if err := t.do(); err != nil {
			c.Level, c.Detail, c.Remedy = Fail, err.Error(), t.remedy
		}
		list = append(list, c)
	}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		return 1
	}
	return 0
}

func tryMounts() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	return mount("tmpfs", "/run", "tmpfs", 0, "")
}

func tryBridge() error {
	err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "trial0"}})
	if err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	return nil
}

// tryTap opens /dev/net/tun as QEMU's taps are made (linux/if_tun.h).
func tryTap() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("trial1")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return errors.Join(errors.New("make a tap"), err)
	}
	return nil
}
