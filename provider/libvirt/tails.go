package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/provider/schema"
)

// How much of the logs is shown when a start fails.
const (
	qemuLines    = 15
	consoleLines = 50
)

// explainStart explains a failed start with what QEMU and the guest said last.
func (p *Provider) explainStart(ctx context.Context, err error, d schema.Domain) error {
	err = explain(err, "start virtual machine "+d.Name)
	var f *diag.Failure
	if !errors.As(err, &f) {
		return err
	}
	for _, log := range []struct {
		title, path string
		lines       int
	}{
		{"QEMU's last lines", p.opts.QEMULog(d.Name), qemuLines},
		{"The console's last lines", d.Console, consoleLines},
	} {
		if text := p.lastLines(ctx, log.path, log.lines); text != "" {
			f.Diagnostic.Detail += fmt.Sprintf("\n%s (%s):\n%s\n", log.title, log.path, text)
		}
	}
	return err
}

// lastLines returns at most n lines from the end of a file, at most 32 KiB, ""
// when there are none or it cannot be read: it decorates an error and must not
// become one.
func (p *Provider) lastLines(ctx context.Context, path string, n int) string {
	text, err := p.opts.Place.Tail(ctx, path, 32<<10)
	if err != nil {
		return ""
	}
	clean := strings.TrimSpace(strings.ReplaceAll(string(text), "\r", ""))
	lines := strings.Split(clean, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
