package acceptance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/hypervisor"
)

// inMounts runs a shell script in a mount namespace of its own, with lvslab as
// its first argument: what it mounts is seen by what it starts and ends with it.
func (s *site) inMounts(t *testing.T, script string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "--propagation", "private", "sh", "-ec", script, "sh", program(t))
	cmd.Dir = s.dir
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // the code tells
	return result{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errOut.String()}
}

// TestAccDiskFullWhileSaving: the machines are booted, with the reason, and no
// half template is left. The disk is a small one of the test's own.
func TestAccDiskFullWhileSaving(t *testing.T) {
	s := newSite(t, clients("full", "198.19.26", 1))
	linked(t, s)
	r := s.inMounts(t, `
cp -r "$LVSLAB_CACHE/images" images
mount -t tmpfs -o size=$(($(du -sm images | cut -f 1) + 700))m lvslab-test "$LVSLAB_CACHE"
mv images "$LVSLAB_CACHE/"
(
  until ls -d "$LVSLAB_CACHE"/templates/.build-*; do sleep 0.05; done
  free=$(df -k --output=avail "$LVSLAB_CACHE" | tail -n 1)
  fallocate -l $((free - 24576))K "$LVSLAB_CACHE/fill"
) >/dev/null 2>&1 &
"$1" apply lab.hcl
echo "left: $(find "$LVSLAB_CACHE/templates" -mindepth 1)"
df -k --output=avail "$LVSLAB_CACHE"
`)
	said := strings.Join(strings.Fields(r.stderr), " ")
	if r.code != 0 || !strings.Contains(said, "Booting instead of restoring") || !strings.Contains(said, "The disk is full") || !strings.Contains(r.stdout, "1 machines started") {
		t.Errorf("apply on a disk that fills: %s", r)
	}
	if !strings.Contains(r.stdout, "left: \n") {
		t.Errorf("half a template is left: %s", r)
	}
	s.must(0, time.Minute, "exec", "client.c[0]", "--", "true")
}

// TestAccTemplateThatDoesNotFit: another QEMU has templates of its own; a saved
// machine that QEMU refuses is booted, with its words; a clone that never
// answers is booted too, once.
func TestAccTemplateThatDoesNotFit(t *testing.T) {
	s := newSite(t, clients("misfit", "198.19.27", 1))
	cache := linked(t, s)
	s.must(0, 2*time.Minute, "apply", "lab.hcl")
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	first, _ := templatesIn(t, cache)

	r := s.inMounts(t, `
cp `+hypervisor.Emulator+` qemu
mount --bind qemu `+hypervisor.Emulator+`
rm qemu
"$1" apply lab.hcl
`)
	if all, _ := templatesIn(t, cache); r.code != 0 || len(first) != 1 || len(all) != 2 || !strings.Contains(r.stdout, "1 machines cloned") || r.stderr != "" {
		t.Errorf("apply with another QEMU: templates %v, then %v, %s", first, all, r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")

	mend := respell(t, filepath.Dir(first[0]))
	r = s.must(0, 2*time.Minute, "apply", "lab.hcl")
	said := strings.Join(strings.Fields(r.stderr), " ")
	if !strings.Contains(said, "client.c[0] could not be cloned: it is booted.") || !strings.Contains(said, strangeDevice) || !strings.Contains(r.stdout, "1 machines started") {
		t.Errorf("apply of a template that QEMU refuses: %s", r)
	}
	s.whole(t, 1)
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	mend()

	cmd, out, errOut := s.start("apply", "lab.hcl")
	var qemus []int
	poll(t, 2*time.Minute, "no machine is being cloned", func() bool { qemus = s.pids("guest="); return len(qemus) > 0 })
	poll(t, time.Minute, "no machine was cloned", func() bool { return strings.Contains(out.String(), "1 machines cloned") })
	// Stopped before its guest can answer: that takes 0.1 s.
	if err := syscall.Kill(qemus[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	errOut.await(t, "does not answer", 2*time.Minute)
	// Else libvirt would wait 10 s for it to end.
	if err := syscall.Kill(qemus[0], syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	err := cmd.Wait()
	said = strings.Join(strings.Fields(errOut.String()), " ")
	if err != nil || strings.Count(said, "The clone client.c[0] does not answer") != 1 || !strings.Contains(said, "it is booted") {
		t.Errorf("a clone that never answers: %v\n%s\n%s", err, out, errOut)
	}
	s.whole(t, 1)
}

// The name of a part of every machine in QEMU's stream, and one that QEMU does
// not know.
const (
	knownDevice   = "timer"
	strangeDevice = "tamer"
)

// respell changes a device's name in a template so that QEMU refuses it, and
// nobody else notices. The result of it makes it as it was.
func respell(t *testing.T, dir string) (mend func()) {
	t.Helper()
	manifest := filepath.Join(dir, "template.json")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := map[string][]byte{}, map[string][]byte{}
	for _, f := range files {
		if before[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
		// In the stream, a name follows its length, and the devices follow the memory.
		after[f] = bytes.Clone(before[f])
		if at := bytes.LastIndex(before[f], []byte("\x05"+knownDevice)); at >= 0 {
			copy(after[f][at+1:], strangeDevice)
		}
	}
	changed := 0
	for f := range before {
		if old, now := sha256.Sum256(before[f]), sha256.Sum256(after[f]); old != now {
			after[manifest] = bytes.ReplaceAll(after[manifest], []byte(hex.EncodeToString(old[:])), []byte(hex.EncodeToString(now[:])))
			changed++
		}
	}
	if changed == 0 {
		t.Fatalf("no device %s in %v", knownDevice, files)
	}
	write := func(all map[string][]byte) {
		for f, text := range all {
			if err := os.WriteFile(f, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(after)
	return func() { write(before) }
}
