package lab

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/operation"
	"github.com/lvslab/lvslab/plan/state"
)

func mustTake(t *testing.T, dir, test string) (*claim, *owner) {
	t.Helper()
	c, left, err := take(t.Context(), dir, test, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c, left
}

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".lvslab", "one")
	first, left := mustTake(t, dir, "TestFirst")
	if left != nil {
		t.Errorf("a new lab has had %v", left)
	}
	path := filepath.Join(dir, claimName)
	if o := abandoned(path); o != nil {
		t.Errorf("a lab that is claimed is abandoned by %v", o)
	}

	_, _, err := take(t.Context(), dir, "TestSecond", 0)
	if err == nil || !strings.Contains(err.Error(), "TestFirst (process ") {
		t.Errorf("a claim on a claimed lab: %v", err)
	}
	var f *diag.Failure
	if !errors.As(err, &f) || f.Diagnostic.Remedy == "" {
		t.Errorf("no remedy: %v", err)
	}

	time.AfterFunc(100*time.Millisecond, func() { _ = first.release(false) }) // as if it had been killed
	second, left, err := take(t.Context(), dir, "TestSecond", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if left == nil || left.Test != "TestFirst" || left.PID != os.Getpid() {
		t.Errorf("left by %v, want TestFirst", left)
	}
	if err := second.release(true); err != nil {
		t.Fatal(err)
	}
	if o := abandoned(path); o != nil {
		t.Errorf("a lab that was taken down is abandoned by %v", o)
	}
	if third, left := mustTake(t, dir, "TestThird"); left != nil {
		t.Errorf("a lab that was taken down is left by %v", left)
	} else if err := third.release(true); err != nil {
		t.Error(err)
	}
}

func TestClaimEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	c, _ := mustTake(t, dir, "TestFirst")
	defer c.file.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errTime)
	defer cancel()
	if _, _, err := take(ctx, dir, "TestSecond", time.Minute); !errors.Is(err, errTime) {
		t.Errorf("got %v", err)
	}
}

// makeState writes the state of a lab with one network on a libvirt.
func makeState(t *testing.T, dir, name, uri string) {
	t.Helper()
	network, err := addr.ParseResource("network.lan/network")
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.OpenOrCreate(t.Context(), dir, name, "", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(func(st *state.State) error {
		st.Hypervisor, err = json.Marshal(map[string]string{"uri": uri})
		st.Resources = []state.Resource{{Addr: network, Type: "network", Status: state.OK, Attrs: json.RawMessage("{}")}}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStrays: a lab beside this one is named when its test has ended and it is up.
func TestStrays(t *testing.T) {
	labs := t.TempDir()
	for _, c := range []struct {
		name, uri string
		held      bool
	}{{"own", "qemu:///system", false}, {"up", "qemu:///system", false}, {"down", "", false}, {"held", "qemu:///system", true}} {
		dir := filepath.Join(labs, c.name)
		claimed, _ := mustTake(t, dir, "TestOf"+c.name)
		if !c.held {
			if err := claimed.release(false); err != nil {
				t.Fatal(err)
			}
		} else {
			defer claimed.file.Close()
		}
		if c.uri != "" {
			makeState(t, dir, c.name, c.uri)
		}
	}
	if how, err := operation.Standing(t.Context(), filepath.Join(labs, "up")); err != nil || how != "on qemu:///system" {
		t.Fatalf("the state made here is not understood: %q, %v", how, err)
	}
	got := strays(t.Context(), filepath.Join(labs, "own"))
	if len(got) != 1 || !strings.Contains(got[0], "lab up of TestOfup (process ") || !strings.Contains(got[0], "destroy --auto-approve "+filepath.Join(labs, "up")) {
		t.Errorf("%q", got)
	}
}
