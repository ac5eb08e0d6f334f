package operation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

func TestGuestPorts(t *testing.T) {
	dir := t.TempDir()
	var own *guestPorts
	one, two := &guestPorts{dir: dir, command: "lvslab plan"}, &guestPorts{dir: dir, command: "lvslab plan"}
	for i, c := range []struct {
		from *guestPorts
		want string
	}{{own, proto.EnginePort}, {one, proto.UserPorts[0]}, {one, proto.UserPorts[0]}, {two, proto.UserPorts[1]}} {
		if got, err := c.from.port("client.c"); err != nil || got != c.want {
			t.Errorf("%d: %s, %v; want %s", i, got, err, c.want)
		}
	}
	own.release()
	one.release()
	if got, err := one.port("client.c"); err != nil || got != proto.UserPorts[0] {
		t.Errorf("after a release: %s, %v", got, err)
	}
}

// A plan beside another process's work keeps off the engine's ports and enrols
// nobody.
func TestVisit(t *testing.T) {
	a, _, _ := paper(t, "flush")
	reopen(t, a)
	store := a.store
	defer func() { a.store = store }() // for whoever closes it
	for _, c := range []struct {
		name       string
		own, close bool
		visits     bool
	}{{"an apply of its own", true, false, false}, {"a plan beside an apply", false, false, true}, {"a plan alone", false, true, false}} {
		a.store, a.host = nil, &host{nodes: &nodes{}}
		if c.own {
			a.store = store
		}
		if c.close {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.visit(); err != nil || (a.host.guest != nil) != c.visits || a.host.nodes.visits != c.visits {
			t.Errorf("%s: %v, guest %v, visits %v", c.name, err, a.host.guest, a.host.nodes.visits)
		}
		failed := a.visitFailed(fmt.Errorf("client.c: %w", client.ErrNotEnrolled))
		var f *diag.Failure
		if told := errors.As(failed, &f); told != c.visits || told && !strings.Contains(f.Diagnostic.Detail, "process ") {
			t.Errorf("%s: %v", c.name, failed)
		}
	}
}
