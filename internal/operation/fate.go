package operation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider"
)

// fate says what has become of a machine that cannot be reached: that its
// hypervisor has died, or it alone. It returns nil when it runs, as far as
// can be known.
func (a *applying) fate(ctx context.Context, node string) error {
	if died := a.hypervisorFate(); died != nil {
		return died
	}
	r, v, d, err := a.domain(node)
	if err != nil {
		return nil
	}
	_, err = a.host.libvirt.Read(ctx, provider.Resource{Addr: r.Addr, Type: r.Type, Attrs: v}, v)
	if died := a.hypervisorFate(); died != nil {
		return died
	}
	if !errors.Is(err, provider.ErrGone) {
		return nil
	}
	log := ""
	if a.host.holder != nil {
		log = a.host.holder.QEMULog(d.Name)
	}
	return machineEnded(node, log, a.host.nodes.console(node))
}

// hypervisorFate returns how the embedded hypervisor died, nil when it lives.
func (a *applying) hypervisorFate() error {
	if a.host == nil || a.host.holder == nil {
		return nil
	}
	if lives, err := a.host.holder.Alive(); err != nil || lives {
		return nil
	}
	return &hypervisorDied{a.host.holder.Died()}
}

// machineEnded is the failure for a machine whose QEMU has gone.
func machineEnded(node, qemuLog, console string) error {
	detail := "Its virtual machine has ended, and nobody had asked it to."
	remedy := "Look in the kernel's log of this machine (dmesg) whether memory was short. Then apply again: the machine is made anew."
	if said := lastWords(qemuLog); said != "" {
		detail += "\nQEMU said last:\n  " + said
	}
	if reason, around := client.Panic(console, 0); reason != "" {
		detail += "\nIts console shows a panic:\n  " + strings.Join(around, "\n  ")
		remedy = "Look at its console with 'lvslab logs " + quoteNode(node) + "'; when memory was short, give it more. Then apply again: the machine is made anew."
	}
	f := diag.Fail(diag.Told(provider.ErrGone), node+" has died", remedy, "%s", detail)
	f.Diagnostic = f.Diagnostic.For(node)
	return f
}

// lastWords returns what QEMU has said of its own end. Most of its log is its
// command line.
func lastWords(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var said []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "qemu-system") && !strings.HasSuffix(line, `\`) || strings.Contains(line, "shutting down") {
			said = append(said, line)
		}
	}
	return strings.Join(said[max(0, len(said)-3):], "\n  ")
}

// crashed is the failure for a guest that went down while its machine ran on.
func crashed(node, reason string, around []string) error {
	detail := reason + "; its settings were in its memory and are gone."
	if len(around) > 0 {
		detail += "\nIts console:\n  " + strings.Join(around, "\n  ")
	}
	what := " went down"
	if strings.Contains(reason, "panic") || strings.Contains(reason, "fatal") {
		what = " has crashed"
	}
	f := diag.Fail(diag.Told(errCrashed), node+what,
		"Look at its console with 'lvslab logs "+quoteNode(node)+"', then apply again: its settings are made anew. When memory was short, give it more.",
		"%s", detail)
	f.Diagnostic = f.Diagnostic.For(node)
	return f
}

// errCrashed is wrapped when a guest panicked or booted again.
var errCrashed = errors.New("the guest went down")

// fateWithin is how long the reason of a lost connection is looked for:
// libvirt hears of a dead QEMU a moment after its sockets have closed.
const fateWithin = 2 * time.Second

// steady is a connection whose errors say what has become of the machine.
type steady struct {
	*client.Conn
	nodes *nodes
	slot  *slot
}

// Call implements client.Caller.
func (s steady) Call(ctx context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	results, err := s.Conn.Call(ctx, calls)
	switch {
	case errors.Is(err, client.ErrLost):
		err = s.nodes.lost(ctx, s.Node(), s.slot, err)
	case errors.Is(err, context.DeadlineExceeded):
		err = diag.Fail(diag.Told(err), s.Node()+" does not answer",
			"Look at its console with 'lvslab logs "+quoteNode(s.Node())+"'; when the host is busy with other things, wait for them. Then apply again.",
			"its agent was asked for %s and gave no answer in time", operations(calls))
	}
	return results, err
}

func operations(calls []proto.Envelope) string {
	var names []string
	for _, c := range calls {
		names = append(names, c.Op)
	}
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return strings.Join(names, ", ")
}

// lost explains a connection that has broken.
func (n *nodes) lost(ctx context.Context, node string, s *slot, err error) error {
	if crash := s.crash.Load(); crash != nil {
		return *crash
	}
	if n.severed != nil {
		if why := n.severed(s.made); why != nil {
			return why
		}
	}
	if ctx.Err() != nil || n.fate == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fateWithin)
	defer cancel()
	for ctx.Err() == nil {
		if end := n.fate(ctx, node); end != nil {
			return end
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return diag.Fail(diag.Told(err), "The connection to "+node+" was lost",
		"Look at its console with 'lvslab logs "+quoteNode(node)+"', then apply again.",
		"its machine runs, but its agent has closed the line")
}

// watchConsole ends the connection when the guest behind it has gone down: QEMU
// keeps the port open over a panic and a reboot, and whoever waits for an
// answer would wait until his deadline.
func (n *nodes) watchConsole(node string, s *slot, conn *client.Conn) {
	path := n.console(node)
	from := client.ConsoleSize(path)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		<-conn.Done()
	}()
	go func() {
		if reason, around := client.AwaitCrash(ctx, path, from); reason != "" {
			err := crashed(node, reason, around)
			s.crash.Store(&err)
			conn.Close()
		}
	}()
}

// patience is how long a boot may be silent: longer where more programs want
// to run than there are processors, at most three times.
func patience(quiet time.Duration, cpus int) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return quiet
	}
	return time.Duration(float64(quiet) * crowding(string(text), cpus))
}

func crowding(loadavg string, cpus int) float64 {
	var load float64
	if _, err := fmt.Sscan(loadavg, &load); err != nil {
		return 1
	}
	return min(3, max(1, load/float64(max(1, cpus))))
}
