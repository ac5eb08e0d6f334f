package hypervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func acceptance(t *testing.T) {
	t.Helper()
	vmtest.Need(t)
}

// options are those of a lab with a directory of its own.
func options(t *testing.T, lineage string) Options {
	t.Helper()
	return Options{Identity: Identity{Lineage: lineage, Lab: "lab-" + lineage, LabDir: t.TempDir(), UID: 0, GID: 0},
		CacheDir: testCache}
}

func start(t *testing.T, o Options) *Holder {
	t.Helper()
	h, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// host is what a lab must leave as it was.
type host struct {
	Links, Mounts, Etc, Run, Var []string
}

func lookAtHost(t *testing.T) host {
	t.Helper()
	var h host
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		h.Links = append(h.Links, l.Attrs().Name)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	h.Mounts = strings.Split(string(mounts), "\n")
	// Other labs of this machine have their registry in /run/lvslab.
	h.Run = slices.DeleteFunc(names(t, "/run"), func(n string) bool { return n == "/run/lvslab" })
	h.Etc, h.Var = names(t, "/etc"), append(append(names(t, "/var/lib"), names(t, "/var/cache")...), names(t, "/var/log")...)
	return h
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, filepath.Join(dir, e.Name()))
	}
	return list
}

// processesOf lists the processes that have the word in their command line.
func processesOf(t *testing.T, word string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && bytes.Contains(text, []byte(word)) && f != fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			list = append(list, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return list
}

// libvirtdOf returns the process id, on the host, of the lab's libvirtd.
func libvirtdOf(t *testing.T, h *Holder) int {
	t.Helper()
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", h.PID))
	if err != nil {
		t.Fatal(err)
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		ns, err := os.Readlink(dir + "/ns/pid")
		comm, err2 := os.ReadFile(dir + "/comm")
		if err == nil && err2 == nil && ns == mine && strings.TrimSpace(string(comm)) == "libvirtd" {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("no libvirtd inside")
	return 0
}

func TestAccHostStaysAsItWas(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	before := lookAtHost(t)
	h := start(t, options(t, "acc-host"))
	if diff := cmp.Diff(before, lookAtHost(t)); diff != "" {
		t.Errorf("while it runs: -before +now\n%s", diff)
	}
	if err := h.AddBridge(t.Context(), "lv-acc0", 1400); err != nil {
		t.Fatal(err)
	}
	if err := h.AddBridge(t.Context(), "lv-acc0", 1300); err != nil {
		t.Errorf("second time: %v", err)
	}
	if mtu, err := h.BridgeMTU(t.Context(), "lv-acc0"); err != nil || mtu != 1300 {
		t.Errorf("MTU %d, %v", mtu, err)
	}
	if diff := cmp.Diff(before, lookAtHost(t)); diff != "" {
		t.Errorf("with a bridge: -before +now\n%s", diff)
	}
	for range 2 {
		if err := h.DeleteBridge(t.Context(), "lv-acc0"); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.BridgeMTU(t.Context(), "lv-acc0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("MTU of a bridge that is not there: %v", err)
	}
	began := time.Now()
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %s", time.Since(began))
	if diff := cmp.Diff(before, lookAtHost(t)); diff != "" {
		t.Errorf("afterwards: -before +now\n%s", diff)
	}
	if left := processesOf(t, "acc-host"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestAccInside(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	o := options(t, "acc-inside")
	var steps []string
	o.Progress = func(step string, since time.Duration) { steps = append(steps, fmt.Sprintf("%s %s", step, since)) }
	h := start(t, o)
	t.Log(steps)
	if len(steps) != 3 {
		t.Errorf("steps %q", steps)
	}
	inside := func(path string) string { return fmt.Sprintf("/proc/%d/root%s", h.PID, path) }
	// Links of the namespace, by its own sysfs.
	if got := names(t, inside("/sys/class/net")); len(got) != 1 || filepath.Base(got[0]) != "lo" {
		t.Errorf("links inside: %q", got)
	}
	text, err := os.ReadFile(inside("/sys/class/net/lo/flags"))
	if err != nil || strings.TrimSpace(string(text)) != "0x9" {
		t.Errorf("flags of lo: %q, %v; want up", text, err)
	}
	if _, err := os.Stat(inside("/dev/kvm")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/dev/kvm inside although emulation was asked for: %v", err)
	}
	// The host is read-only from inside, the lab's directory is not.
	if err := unix.Access(inside("/usr"), unix.W_OK); !errors.Is(err, unix.EROFS) {
		t.Errorf("/usr inside: %v, want read-only", err)
	}
	if err := unix.Access(inside(o.LabDir), unix.W_OK); err != nil {
		t.Errorf("lab's directory inside: %v", err)
	}
	own, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(h.PID); err != nil || sid == own || sid != h.PID {
		t.Errorf("session %d, %v; want its own", sid, err)
	}
	if st, err := h.Check(t.Context()); st != Running || err != nil {
		t.Errorf("%s, %v", st, err)
	}
	if _, err := Start(t.Context(), o); !errors.Is(err, ErrBusy) {
		t.Errorf("second start: %v, want ErrBusy", err)
	}
	if st, err := h.Check(t.Context()); st != Running || err != nil {
		t.Errorf("after the second start: %s, %v", st, err)
	}
}

func TestAccTwoAtOnce(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	a, b := start(t, options(t, "acc-a")), start(t, options(t, "acc-b"))
	if err := a.AddBridge(t.Context(), "same", 0); err != nil {
		t.Fatal(err)
	}
	if err := b.AddBridge(t.Context(), "same", 0); err != nil {
		t.Fatal(err)
	}
	list, err := List(t.Context())
	if err != nil || len(list) != 2 || list[0].Lineage != "acc-a" || list[1].Lab != "lab-acc-b" {
		t.Errorf("%+v, %v", list, err)
	}
	// One with the other's number is not taken for it.
	wrong := *a
	wrong.Lineage = "acc-b"
	if err := wrong.ping(t.Context()); err == nil || !strings.Contains(err.Error(), "acc-a") {
		t.Errorf("%v", err)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := b.Check(t.Context()); st != Running || err != nil {
		t.Errorf("the other one: %s, %v", st, err)
	}
	if _, err := b.BridgeMTU(t.Context(), "same"); err != nil {
		t.Error(err)
	}
}

func TestAccKillNineLeavesNothing(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	before := lookAtHost(t)
	h := start(t, options(t, "acc-kill"))
	daemon := libvirtdOf(t, h)
	if err := syscall.Kill(h.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := h.awaitEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if st, err := readStat(daemon); err == nil && !st.ended() {
		t.Errorf("libvirtd %d lives on: %+v", daemon, st)
	}
	if took > 15*time.Second { // 0.1 s on an idle machine
		t.Errorf("took %s", took)
	}
	if diff := cmp.Diff(before, lookAtHost(t)); diff != "" {
		t.Errorf("-before +now\n%s", diff)
	}
	if left := processesOf(t, "acc-kill"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, st, err := Find(t.Context(), "acc-kill"); st != Gone || err != nil {
		t.Errorf("%s, %v", st, err)
	}
	// A new one of the same lineage starts where the old one was.
	again := start(t, options(t, "acc-kill"))
	if st, err := again.Check(t.Context()); st != Running || err != nil {
		t.Errorf("again: %s, %v", st, err)
	}
}

func TestAccDeathOfLibvirtdIsNamed(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	h := start(t, options(t, "acc-died"))
	if err := syscall.Kill(libvirtdOf(t, h), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := h.awaitEnd(t.Context()); err != nil {
		t.Fatalf("the lab outlives its libvirtd: %v", err)
	}
	found, st, err := Find(t.Context(), "acc-died")
	if st != Gone || err != nil || found == nil {
		t.Fatalf("%+v, %s, %v", found, st, err)
	}
	died := found.Died()
	for _, want := range []string{"libvirtd of lab lab-acc-died died", "signal: killed", h.LogPath()} {
		if !errors.Is(died, ErrDied) || !strings.Contains(died.Error(), want) {
			t.Errorf("no %q in: %v", want, died)
		}
	}
}

func TestAccSilentIsAnError(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	h := start(t, options(t, "acc-silent"))
	daemon := libvirtdOf(t, h)
	if err := syscall.Kill(daemon, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, st, err := Find(ctx, "acc-silent")
	if st != Silent || !errors.Is(err, ErrSilent) {
		t.Errorf("%s, %v", st, err)
	}
	if err := syscall.Kill(daemon, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if st, err := h.Check(t.Context()); st != Running || err != nil {
		t.Errorf("afterwards: %s, %v", st, err)
	}
}

func TestAccSurvivesItsStarter(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	text, err := json.Marshal(options(t, "acc-starter"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], argStarter, string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var h Holder
	if err := json.Unmarshal(out, &h); err != nil {
		t.Fatal(err)
	}
	defer h.Stop(context.Background())
	// Ctrl-C goes to the starter's process group, which has ended with it.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("somebody is left in the starter's group: %v", err)
	}
	found, st, err := Find(t.Context(), "acc-starter")
	if st != Running || err != nil || found == nil || *found != h {
		t.Errorf("%+v, %s, %v", found, st, err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAccBoundEndsWithItsStarter: a bound holder goes when its starter does.
func TestAccBoundEndsWithItsStarter(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	o := options(t, "acc-bound")
	o.Bound = true
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], argStarter, string(text))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var h Holder
	if err := json.Unmarshal(out, &h); err != nil {
		t.Fatal(err)
	}
	if err := h.awaitEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if left := processesOf(t, "acc-bound"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAccFailedStartLeavesNothing(t *testing.T) {
	acceptance(t)
	dir := useRegistry(t)
	before := lookAtHost(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, options(t, "acc-late")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if left := processesOf(t, "acc-late"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "acc-late.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("registry entry: %v", err)
	}
	if diff := cmp.Diff(before, lookAtHost(t)); diff != "" {
		t.Errorf("-before +now\n%s", diff)
	}
}

func TestAccLabDirectoryBelowAHiddenOne(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	o := options(t, "acc-var")
	dir, err := os.MkdirTemp("/var/tmp", "lvslab-acc-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	o.LabDir = filepath.Join(dir, "lab")
	o.Visible = []string{filepath.Join(dir, "images")}
	if err := os.MkdirAll(o.Visible[0], 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Visible[0], "root"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := start(t, o)
	root := fmt.Sprintf("/proc/%d/root", h.PID)
	if text, err := os.ReadFile(filepath.Join(root, o.Visible[0], "root")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	if err := unix.Access(filepath.Join(root, o.LabDir), unix.W_OK); err != nil {
		t.Errorf("lab's directory: %v", err)
	}
	if err := unix.Access(filepath.Join(root, o.Visible[0]), unix.W_OK); !errors.Is(err, unix.EROFS) {
		t.Errorf("images: %v, want read-only", err)
	}
	// The host's own configuration is not visible.
	if slices.Contains(names(t, root+"/etc"), filepath.Join(root, "etc/shadow")) {
		t.Error("the host's /etc is visible")
	}
}

func TestAccDoctor(t *testing.T) {
	acceptance(t)
	useRegistry(t)
	before := lookAtHost(t)
	checks := Doctor(t.Context(), DoctorOptions{CacheDir: t.TempDir()})
	seen := map[string]Level{}
	for _, c := range checks {
		seen[c.Name] = c.Level
		if (c.Level == OK) != (c.Remedy == "") || c.Detail == "" {
			t.Errorf("%+v", c)
		}
	}
	for _, name := range []string{"root", "libvirtd", "libvirt_driver_qemu.so", "qemu-system-x86_64", "namespaces", "mounts", "bridge", "tun", "disk", "labs"} {
		if seen[name] != OK {
			t.Errorf("%s: %q", name, seen[name])
		}
	}
	if diff := cmp.Diff(before, lookAtHost(t)); diff != "" {
		t.Errorf("the doctor changed the host: -before +now\n%s", diff)
	}
}
