package operation

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan/state"
)

// guestPorts are the user ports that this process has taken, one a machine: while
// another process works on the lab the engine's ports are its own, and whoever
// dialled one would wait for hours.
type guestPorts struct {
	dir, command string

	mu     sync.Mutex
	claims map[string]*client.Claim
}

// port returns the port of a machine to be dialled.
func (g *guestPorts) port(machine string) (string, error) {
	if g == nil {
		return enginePort, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.claims[machine]; c != nil {
		return c.Port, nil
	}
	c, err := client.ClaimUserPort(g.dir, machine, g.command)
	if err != nil {
		return "", err
	}
	if g.claims == nil {
		g.claims = map[string]*client.Claim{}
	}
	g.claims[machine] = c
	return c.Port, nil
}

func (g *guestPorts) release() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.claims {
		c.Release()
	}
	g.claims = nil
}

// visit has a plan look at a lab through user ports while another process works
// on it.
func (a *applying) visit() error {
	if a.store != nil {
		return nil
	}
	_, held, err := state.Held(a.dir)
	if err != nil || !held {
		return err
	}
	a.host.guest = &guestPorts{dir: filepath.Join(a.dir, "ports"), command: "lvslab plan"}
	a.host.nodes.visits = true
	return nil
}

// visitFailed says of a look that failed beside another process's work who works.
func (a *applying) visitFailed(err error) error {
	by, held, herr := state.Held(a.dir)
	if a.host == nil || a.host.guest == nil || !errors.Is(err, client.ErrNotEnrolled) {
		return err
	}
	detail := "it has just ended"
	if herr == nil && held {
		detail = by.String()
	}
	return diag.Fail(diag.Told(err), "Another process works on this lab", "Plan again when it is done.",
		"its machines have not all been set up yet: %s", detail)
}
