package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/plan"
)

// diskEnv makes the test binary a process with a file system of its own: it
// mounts 64 KiB of memory at the directory named, lives through what can happen
// to a disk there, and prints what a user would read.
const diskEnv = "LVSLAB_TEST_DISK"

// A full disk and a read-only one, really: nothing is begun, what was recorded
// stays readable, and once the disk is well again so is the lab.
func TestRealDisks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), diskEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // one's own user namespace may mount, too
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	golden.Check(t, "disks.golden", strings.ReplaceAll(string(out), dir, "DIR"))
}

func onOwnDisk(dir string) error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("lab", dir, "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	lab := filepath.Join(dir, "lab")
	s, err := openHere(lab)
	if err != nil {
		return err
	}
	a := thing("a")
	if err := s.Recorder().Made(0, a, a.Attrs, nil); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := fill(ballast); err != nil {
		return err
	}
	_, err = s.Recorder().Begin(plan.Create, thing("b"))
	tell("an intent on a full disk", err)
	tell("a record on a full disk", s.Recorder().Doubtful(0, a.Addr, nil))
	if err := s.Close(); err != nil {
		return err
	}
	if err := fill(ballast + "2"); err != nil { // the holder's name is gone and has left its page
		return err
	}
	_, err = openHere(lab)
	tell("a lab on a full disk", err)
	_, err = OpenOrCreate(context.Background(), filepath.Join(dir, "other"), "other", "", Options{})
	tell("a new lab on a full disk", err)
	if err := errors.Join(os.Remove(ballast), os.Remove(ballast+"2")); err != nil {
		return err
	}
	if err := unharmed(lab); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if err := unix.Mount("lab", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	_, err = openHere(lab)
	tell("a lab on a read-only disk", err)
	_, err = openHere(filepath.Join(dir, "new"))
	tell("a new lab on a read-only disk", err)
	if _, err := Read(lab); err != nil {
		return fmt.Errorf("reading needs no right to write: %w", err)
	}
	if err := unix.Mount("lab", dir, "", unix.MS_REMOUNT, ""); err != nil {
		return err
	}
	return unharmed(lab)
}

func openHere(dir string) (*Store, error) {
	return OpenOrCreate(context.Background(), dir, "lab", "", Options{})
}

// unharmed checks that the lab is as the first part of [onOwnDisk] left it.
func unharmed(dir string) error {
	s, err := openHere(dir)
	if err != nil {
		return err
	}
	if st := s.State(); st.Serial != 2 || len(st.Resources) != 1 || st.Resources[0].Status != OK || len(s.Pending()) != 0 {
		err = fmt.Errorf("%+v, pending %v", st, s.Pending())
	}
	return errors.Join(err, s.Close())
}

// fill writes until nothing more fits.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if cerr := f.Close(); cerr != nil {
		return cerr
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

func tell(what string, err error) {
	fmt.Printf("== %s\n", what)
	for _, d := range diag.From(err) {
		fmt.Printf("%s\n%s\n=> %s\n", d.Summary, d.Detail, d.Remedy)
	}
}
