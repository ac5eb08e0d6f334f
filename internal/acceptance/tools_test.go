package acceptance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// useTools tries, on the lab of TestAccLifecycle, what people do with machines:
// commands on several, files there and back, captures, and OpenSSH's own client.
func useTools(t *testing.T, s *site) {
	t.Helper()
	r := s.must(3, time.Minute, "exec", "backend,client.probe", "--", "sh", "-c", `hostname; hostname >&2; test "$(hostname)" = web || exit 3`)
	for _, out := range []string{r.stdout, r.stderr} {
		if !strings.Contains(out, "backend.web: web\n") || !strings.Contains(out, "client.probe: probe\n") {
			t.Errorf("a command on two nodes: %s", r)
		}
	}

	files := t.TempDir()
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	here := func(name string) string { return filepath.Join(files, name) }
	if err := os.WriteFile(here("big"), big, 0o640); err != nil {
		t.Fatal(err)
	}
	s.must(0, time.Minute, "cp", here("big"), "backend.web,client.probe:/tmp")
	s.must(0, time.Minute, "cp", "client.probe:/tmp/big", "director.front:/tmp/other")
	s.must(0, time.Minute, "cp", "director.front:/tmp/other", here("back"))
	if got, err := os.ReadFile(here("back")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("a file that went around: %d bytes, %v", len(got), err)
	}
	if r := s.must(1, time.Minute, "cp", "director.front:/tmp/none", files); !strings.Contains(r.stderr, "director.front:/tmp/none") {
		t.Errorf("a file that is not there: %s", r)
	}

	// Lines of text until the packets have come; a file until the time is up.
	query := func() {
		s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.8.101", "n7.small.test")
	}
	text, out, errOut := s.start("capture", "backend.web", "-i", "up", "-c", "1", "--", "udp", "port", "53")
	errOut.await(t, "listening on up", time.Minute)
	query()
	if err := text.Wait(); err != nil || !strings.Contains(out.String(), "> 198.19.8.101.53: ") {
		t.Errorf("a query in the tunnel: %v\n%s%s", err, out, errOut)
	}
	s.must(0, time.Minute, "capture", "client.probe", "--for", "200ms", "--write", here("none.pcap"), "--", "port", "54")
	b, err := os.ReadFile(here("none.pcap"))
	if err != nil || len(b) != 24 || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 {
		t.Errorf("a capture without packets: %x, %v", b, err)
	}
	s.must(1, time.Minute, "capture", "client.probe", "-i", "nic9", "--for", "1s")
	text, _, errOut = s.start("capture", "client.probe")
	errOut.await(t, "listening on", time.Minute)
	if err := errors.Join(text.Process.Signal(os.Interrupt), text.Wait()); err != nil || !strings.Contains(errOut.String(), "packets captured") {
		t.Errorf("a capture ended by Ctrl-C: %v\n%s", err, errOut)
	}

	config := filepath.Join(s.dir, ".lvslab/life/ssh/config")
	if r := s.must(0, time.Minute, "ssh-config"); !strings.Contains(r.stdout, "Host web backend.web\n") {
		t.Errorf("configuration: %s", r)
	}
	for _, host := range []string{"web", "backend.web"} {
		out, err := exec.Command("ssh", "-F", config, host, "hostname; exit 7").CombinedOutput()
		var code *exec.ExitError
		if !errors.As(err, &code) || code.ExitCode() != 7 || string(out) != "web\n" {
			t.Errorf("ssh %s: %s%v", host, out, err)
		}
	}
	if out, err := exec.Command("scp", "-q", "-F", config, "web:/tmp/big", here("scp")).CombinedOutput(); err != nil {
		t.Errorf("scp: %v: %s", err, out)
	}
	if got, _ := os.ReadFile(here("scp")); !bytes.Equal(got, big) {
		t.Errorf("scp brought %d bytes", len(got))
	}
}
