package operation

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
)

// deaf returns nodes whose machine does not answer, with its console's path.
func deaf(t *testing.T) (*nodes, string) {
	t.Helper()
	keys := &keyring{raw: map[string][]byte{}}
	for _, name := range []string{clientKeyName, "client.c"} {
		k, err := client.NewKey(name)
		if err != nil {
			t.Fatal(err)
		}
		keys.raw[name] = k.Private
	}
	console := filepath.Join(t.TempDir(), "console.log")
	return &nodes{
		keys: keys, quiet: 150 * time.Millisecond,
		name: asItIs, identity: asItIs,
		console: func(string) string { return console },
		open: func(string) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		},
	}, console
}

func TestBootThatFailedIsTriedOnceMore(t *testing.T) {
	for name, c := range map[string]struct{ console, want string }{
		"silent": {"", "nothing on its console for"},
		"panic":  {"[ 1.0] Kernel panic - not syncing: No working init found\n", "Kernel panic - not syncing: No working init found"},
	} {
		n, console := deaf(t)
		if err := os.WriteFile(console, []byte(c.console), 0o600); err != nil {
			t.Fatal(err)
		}
		var again []string
		n.remake = func(_ context.Context, node string, why error) error {
			again = append(again, node+": "+bootReason(why))
			return nil
		}
		_, _, err := n.caller(t.Context(), "client.c")
		if len(again) != 1 || !strings.HasPrefix(again[0], "client.c: "+c.want) {
			t.Errorf("%s: made anew %q", name, again)
		}
		got := diag.From(err)
		if len(got) != 1 || got[0].Summary != "client.c did not come up" || !strings.Contains(got[0].Detail, c.want) || got[0].Remedy == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDeadMachineIsNotWaitedFor(t *testing.T) {
	n, console := deaf(t)
	n.quiet = time.Minute
	n.fate = func(_ context.Context, node string) error { return machineEnded(node, "", console) }
	began := time.Now()
	_, _, err := n.caller(t.Context(), "client.c")
	if !errors.Is(err, provider.ErrGone) || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	n.remake = func(context.Context, string, error) error {
		t.Error("a machine was made anew on a dead hypervisor")
		return nil
	}
	n.fate = func(context.Context, string) error {
		return &hypervisorDied{diag.Fail(nil, "libvirtd of lab x died", "Apply again.", "")}
	}
	if _, _, err := n.caller(t.Context(), "client.c"); err == nil || !strings.Contains(err.Error(), "libvirtd of lab x died") {
		t.Errorf("got %v", err)
	}
}

func TestMachineEndedTellsWhatWasSaid(t *testing.T) {
	dir := t.TempDir()
	log, console := filepath.Join(dir, "qemu.log"), filepath.Join(dir, "console.log")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(log, "/usr/bin/qemu-system-x86_64 \\\n-name guest=x \\\n2026-12-02 03:02:41.214+0000: shutting down, reason=crashed\n")
	write(console, "lvslab-agent: ports open, 4 s after boot\n")
	d := diag.From(machineEnded("backend.ns[0]", log, console))[0]
	if d.Summary != "backend.ns[0] has died" || !strings.Contains(d.Detail, "reason=crashed") || strings.Contains(d.Detail, "-name") || !strings.Contains(d.Remedy, "dmesg") {
		t.Errorf("%+v", d)
	}
	write(console, "lvslab-agent: ports open, 4 s after boot\n[ 9.0] Kernel panic - not syncing: Out of memory\n")
	d = diag.From(machineEnded("backend.ns[0]", log, console))[0]
	if !strings.Contains(d.Detail, "Out of memory") || !strings.Contains(d.Remedy, "lvslab logs 'backend.ns[0]'") {
		t.Errorf("%+v", d)
	}
}

func TestCrowdedHostsGetMorePatience(t *testing.T) {
	for text, want := range map[string]float64{
		"0.10 0.20 0.30 1/200 77": 1, "5.00 1.0 1.0 1/2 3": 2.5, "40.0 1.0 1.0 1/2 3": 3, "": 1, "nonsense": 1,
	} {
		if got := crowding(text, 2); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
