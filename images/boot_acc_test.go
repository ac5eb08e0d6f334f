package images

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// qemu runs a guest with the image until it powers off and returns its
// console. The machine is what a lab gets: type pc, virtio disk, NIC, port and
// random numbers, 256 MiB, emulated.
func qemu(t *testing.T, img Image, initrd, more string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	args = append([]string{
		"-machine", "pc,accel=tcg", "-m", "256", "-smp", "1", "-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio",
		"-kernel", img.Kernel, "-initrd", initrd, "-append", "console=ttyS0 " + KernelArgs + " " + more,
		"-drive", "file=" + img.Root + ",format=raw,if=virtio,readonly=on",
	}, args...)
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	var console, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &errs
	cmd.Stdin = nil
	if err := cmd.Run(); err != nil {
		t.Fatalf("qemu: %v\n%s\nconsole:\n%s", err, errs.String(), console.String())
	}
	return strings.ReplaceAll(console.String(), "\r", "")
}

func TestAccBootsAndWorks(t *testing.T) {
	img := acceptance(t)
	script, err := os.ReadFile("testdata/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	initrd, err := InitrdWithAgent(t.Context(), img, script, accCache)
	if err != nil {
		t.Fatal(err)
	}
	console := qemu(t, img, initrd, "rdinit="+AgentPath,
		"-netdev", "hubport,id=n0,hubid=0", "-device", "virtio-net-pci,netdev=n0,romfile=",
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
		"-chardev", "null,id=c0", "-device", "virtserialport,chardev=c0,name=org.lvslab.test")
	done := 0
	for _, line := range strings.Split(console, "\n") {
		switch {
		case strings.HasPrefix(line, "UPTIME"):
			t.Log(line)
		case strings.HasPrefix(line, "CHECK ") && strings.HasSuffix(line, " ok"):
			done++
		case strings.HasPrefix(line, "CHECK "):
			t.Error(line)
		}
	}
	if !strings.Contains(console, "CHECKS DONE") || done < 40 {
		t.Errorf("%d checks passed, want at least 40 and the end reached; console:\n%s", done, console)
	}
}

// TestAccBootsWithoutAgent goes the way of /init, for looking at an image by hand.
func TestAccBootsWithoutAgent(t *testing.T) {
	img := acceptance(t)
	console := qemu(t, img, img.Initrd, "lvslab.init=/usr/bin/poweroff")
	// poweroff as PID 1 without -f asks an init that is not there; what counts
	// is that it was reached, which the panic of its exit shows.
	if !regexp.MustCompile(`Comm: poweroff|Power down|reboot:`).MatchString(console) {
		t.Errorf("poweroff was not reached:\n%s", console)
	}
}
