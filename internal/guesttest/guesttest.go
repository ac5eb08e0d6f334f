// Package guesttest runs a package's own tests inside a guest, for code that
// needs a kernel which the host does not have (IPVS, tunnels).
//
// A package has one test TestAcc… that calls [Run] on the host. It builds the
// package's test binary, boots the lab's own image under emulation with that
// binary in the initramfs, and runs the tests TestGuest… in it; those call
// [Inside] first and are skipped anywhere else.
package guesttest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"

	"github.com/u-root/u-root/pkg/cpio"

	"github.com/lvslab/lvslab/images"
)

// insideVariable is set in the guest by init.sh.
const insideVariable = "LVSLAB_IN_GUEST"

//go:embed init.sh
var initScript string

// Inside skips the test unless it runs in a guest.
func Inside(t testing.TB) {
	t.Helper()
	if os.Getenv(insideVariable) == "" {
		t.Skip("runs inside a guest, by the package's TestAcc test")
	}
}

var ended = regexp.MustCompile(`(?m)^GUEST EXIT (\d+)\r?$`)

// Run boots a guest with the test binary of the package in the current
// directory, runs the tests that match pattern there, and fails when one of
// them does or none ran. The machine has one CPU, 256 MiB and no NIC.
func Run(t *testing.T, pattern string) {
	t.Helper()
	vmtest.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	img, err := images.Build(ctx, images.Debian12, images.Options{})
	if err != nil {
		t.Fatal(err)
	}
	initrd, err := buildInitrd(ctx, img, t.TempDir(), pattern)
	if err != nil {
		t.Fatal(err)
	}
	console, err := boot(ctx, img, initrd)
	if m := ended.FindStringSubmatch(console); m == nil || m[1] != "0" || !strings.Contains(console, "--- PASS") {
		t.Fatalf("the tests in the guest failed (%v); console:\n%s", err, console)
	}
	t.Log("\n" + console)
}

// buildInitrd appends the test binary and a script that runs it to the image's
// initramfs.
func buildInitrd(ctx context.Context, img images.Image, dir, pattern string) (string, error) {
	binary := filepath.Join(dir, "guest.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags", "-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the test binary: %w\n%s", err, out)
	}
	var archive bytes.Buffer
	base, err := os.ReadFile(img.Initrd)
	if err != nil {
		return "", err
	}
	archive.Write(base)
	for archive.Len()%4 != 0 { // an archive starts at a multiple of four
		archive.WriteByte(0)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	w := cpio.Newc.Writer(&archive)
	for i, r := range []cpio.Record{
		cpio.Directory("guest", 0o755),
		cpio.StaticFile("guest/init", initScript, 0o755),
		cpio.StaticFile("guest/pattern", pattern, 0o644),
		cpio.StaticFile("guest/env", handedOn(), 0o644),
		cpio.StaticFile("guest/test", string(program), 0o755),
	} {
		r.Ino, r.NLink = uint64(i+1), 1
		if err := w.WriteRecord(r); err != nil {
			return "", err
		}
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "initramfs.cpio")
	return path, os.WriteFile(path, archive.Bytes(), 0o644)
}

// handedOn is a shell script that sets the host's LVSLAB_SEED and LVSLAB_FUZZ
// in the guest, so that a random test can be repeated or made longer.
func handedOn() string {
	var out strings.Builder
	for _, name := range []string{"LVSLAB_SEED", "LVSLAB_FUZZ"} {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			fmt.Fprintf(&out, "export %s=%d\n", name, n)
		}
	}
	return out.String()
}

func boot(ctx context.Context, img images.Image, initrd string) (string, error) {
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64",
		"-machine", "pc,accel=tcg", "-m", "256", "-smp", "1", "-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio",
		"-kernel", img.Kernel, "-initrd", initrd, "-append", "console=ttyS0 quiet mitigations=off panic=-1 rdinit=/guest/init",
		"-drive", "file="+img.Root+",format=raw,if=virtio,readonly=on", "-device", "virtio-rng-pci")
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	err := cmd.Run()
	return strings.ReplaceAll(console.String(), "\r", ""), err
}
