package agenttest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

func acceptance(t *testing.T) context.Context {
	t.Helper()
	vmtest.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func timed(t *testing.T, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	t.Logf("%-28s %6.1f ms", what, float64(time.Since(begin).Microseconds())/1000)
}

// TestAccFirstContact says how long each step from power-on takes, by the clock
// and in the guest's processor time.
func TestAccFirstContact(t *testing.T) {
	ctx := acceptance(t)
	vm := Boot(t, "client.c")
	step := func(what string) {
		t.Logf("%-28s %6.2f s after power-on, %5.2f s of CPU", what, time.Since(vm.Started).Seconds(), vm.CPU(t).Seconds())
	}
	_, err := client.WaitReady(ctx, vm.Spec(proto.UserPorts[0]), client.Console{Path: vm.Console})
	if !errors.Is(err, client.ErrNotEnrolled) {
		t.Fatalf("a user port before enrolment: %v", err)
	}
	step("hello answered")
	c := vm.Dial(t, proto.EnginePort)
	step("enrolled")
	t.Logf("guest's uptime at enrolment  %6.2f s", c.Enrolled().Uptime)
	repeat := func(what string, f func()) {
		const times = 20
		begin, cpu := time.Now(), vm.CPU(t)
		for range times {
			f()
		}
		t.Logf("%-28s %6.1f ms, %5.1f ms of CPU", what, float64(time.Since(begin).Milliseconds())/times, float64((vm.CPU(t)-cpu).Milliseconds())/times)
	}
	repeat("one call", func() {
		if _, err := client.Do(ctx, c, proto.FileWrite, proto.FileBody{Path: "/run/lvslab/x", Data: []byte("abc")}); err != nil {
			t.Fatal(err)
		}
	})
	repeat("reconnect", func() {
		c.Close()
		c = vm.Dial(t, proto.EnginePort)
	})
	repeat("exec", func() {
		var out bytes.Buffer
		code, err := c.Exec(ctx, []string{"cat", "/run/lvslab/x"}, nil, &out, nil)
		if code != 0 || err != nil || out.String() != "abc" {
			t.Fatalf("exec: %d, %v, %q", code, err, out.String())
		}
	})
	if c.BootID() != vm.bootID || c.Enrolled() != nil {
		t.Errorf("after the reconnect: boot id %q, enrolled %v", c.BootID(), c.Enrolled())
	}
}
