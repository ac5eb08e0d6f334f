package hypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// startTimeout bounds the whole start when the context has no deadline of its
// own. Measured: 0.2 s with known capabilities; probing QEMU adds up to 4 s.
const startTimeout = 60 * time.Second

// Start starts the lab's hypervisor and returns when its libvirtd answers. The
// holder lives on when the caller ends. After an error nothing of it is left,
// except its log in LabDir.
//
// A lineage that already has a living holder makes Start fail with [ErrBusy]
// (wrapped): use [Find] first.
func Start(ctx context.Context, o Options) (*Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	began := time.Now()
	if err := o.check(); err != nil {
		return nil, err
	}
	entry, err := claimFree(ctx, o)
	if err != nil {
		return nil, err
	}
	defer entry.Close() // the child holds the lock
	h, rep, err := launch(o, entry)
	if err != nil {
		entry.Close()
		return nil, errors.Join(err, forget(o.Lineage))
	}
	defer rep.Close()
	err = func() error {
		if err := h.awaitReport(ctx, rep); err != nil {
			return err
		}
		o.progress("namespaces", began)
		if err := h.awaitLibvirt(ctx); err != nil {
			return err
		}
		o.progress("libvirtd", began)
		return nil
	}()
	if err != nil {
		entry.Close()
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, h.Stop(stopCtx))
	}
	// A failure here costs the next lab a probe of QEMU and nothing else.
	_ = saveCapabilities(h, o)
	o.progress("capabilities", began)
	return h, nil
}

func (o *Options) progress(step string, began time.Time) {
	if o.Progress != nil {
		o.Progress(step, time.Since(began))
	}
}

// check completes the options and refuses what cannot work.
func (o *Options) check() error {
	if _, err := entryPath(o.Lineage); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return diag.Fail(syscall.EPERM, "The embedded hypervisor needs root",
			"Run the command with sudo, or name a libvirt that you may use: provider \"libvirt\" { uri = \"qemu:///system\" }.",
			"It makes namespaces, mounts and network bridges of its own")
	}
	if o.Accelerator == "" {
		o.Accelerator = TCG
	}
	for _, p := range []*string{&o.LabDir, &o.CacheDir} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return fmt.Errorf("hypervisor: %w", err)
		}
		if *p, err = filepath.EvalSymlinks(abs); err != nil {
			return err
		}
	}
	for _, bin := range []string{Emulator, libvirtd} {
		if _, err := os.Stat(bin); err != nil {
			return missingProgram(bin, err)
		}
	}
	for _, d := range drivers {
		if _, err := findDriver(d); err != nil {
			return missingProgram(d, err)
		}
	}
	return nil
}

// claimFree claims the lineage's entry and waits until an earlier holder,
// killed a moment ago, has wholly gone.
func claimFree(ctx context.Context, o Options) (*os.File, error) {
	f, err := claim(o.Lineage)
	if errors.Is(err, ErrBusy) {
		return nil, diag.Fail(err, fmt.Sprintf("Lab %s is already running", o.Lab),
			"Use the running lab, or end it with lvslab destroy.", "Its holder has the lock of lineage %s", o.Lineage)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err == nil {
		var old Holder
		if json.Unmarshal(text, &old) == nil && old.PID > 0 {
			err = old.awaitEnd(ctx)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// launch starts PID 1 of the new namespaces, writes its entry and only then
// gives it its order: a starter that dies in between leaves a child that reads
// an empty order and ends.
func launch(o Options, entry *os.File) (*Holder, io.ReadCloser, error) {
	log, err := openLog(o)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer orderW.Close()
	defer orderR.Close()
	repR, repW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer repW.Close()
	cmd := exec.Command("/proc/self/exe", argInit, o.Lineage)
	cmd.Args[0] = "lvslab"
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{orderR, entry, repW}
	var bond *os.File
	switch {
	case o.Bond != nil:
		cmd.Args = append(cmd.Args, argBound)
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.Bond)
	case o.Bound:
		bondR, bondW, err := os.Pipe()
		if err != nil {
			repR.Close()
			return nil, nil, err
		}
		defer bondR.Close()
		cmd.Args = append(cmd.Args, argBound)
		cmd.ExtraFiles, bond = append(cmd.ExtraFiles, bondR), bondW
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// A session of its own: no signal of the user's terminal reaches it.
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if err := cmd.Start(); err != nil {
		repR.Close()
		return nil, nil, diag.Fail(err, "Cannot make namespaces for the lab",
			"Run lvslab doctor; in a container, start it with the privileges to make namespaces.",
			"The embedded hypervisor needs mount, network, PID, IPC and UTS namespaces of its own")
	}
	go func() { _ = cmd.Wait() }() // reaps it while this process lives
	h, err := register(o, cmd.Process.Pid, entry)
	if err == nil {
		h.bond = bond
		err = json.NewEncoder(orderW).Encode(o)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		repR.Close()
		return nil, nil, err
	}
	return h, repR, nil
}

func register(o Options, pid int, entry *os.File) (*Holder, error) {
	st, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	h := &Holder{PID: pid, StartTime: st.startTime, BootID: boot, Protocol: Protocol,
		Lineage: o.Lineage, Lab: o.Lab, LabDir: o.LabDir, Accelerator: o.Accelerator}
	if o.Bound {
		own, err := readStat(os.Getpid())
		if err != nil {
			return nil, err
		}
		h.StarterPID, h.StarterStartTime = os.Getpid(), own.startTime
	}
	return h, writeEntry(entry, h)
}

func openLog(o Options) (*os.File, error) {
	path := filepath.Join(o.LabDir, LogName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("holder's log: %w", err)
	}
	if err := f.Chown(o.UID, o.GID); err != nil {
		f.Close()
		return nil, fmt.Errorf("holder's log: %w", err)
	}
	return f, nil
}

// awaitReport waits for the holder's word that libvirtd has been started.
func (h *Holder) awaitReport(ctx context.Context, rep io.Reader) error {
	type result struct {
		r   report
		err error
	}
	got := make(chan result, 1)
	go func() {
		var r report
		err := json.NewDecoder(rep).Decode(&r)
		got <- result{r, err}
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("start of the hypervisor: %w", ctx.Err())
	case res := <-got:
		if res.err != nil {
			return h.died("The hypervisor ended while it was being started")
		}
		if res.r.Error != "" {
			return diag.Fail(errors.New(res.r.Error), "The hypervisor cannot be set up",
				"Run lvslab doctor: it checks each thing that the hypervisor needs.", "%s", "Setting up its "+res.r.Stage+" failed")
		}
		return nil
	}
}
