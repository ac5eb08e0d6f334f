package agenttest

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

func acceptance(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv("LVSLAB_ACC") == "" {
		t.Skip("set LVSLAB_ACC=1: boots real VMs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func timed(t *testing.T, what string, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	t.Logf("%-28s %6.0f ms", what, float64(time.Since(begin).Microseconds())/1000)
}

func TestAccFirstContact(t *testing.T) {
	ctx := acceptance(t)
	vm := Boot(t, "client.c")
	c := vm.Dial(t, proto.EnginePort)
	t.Logf("power-on to enrolled         %6.0f ms, guest uptime %.2f s", float64(time.Since(vm.Started).Milliseconds()), c.Enrolled().Uptime)
	for range 3 {
		timed(t, "one call", func() {
			if _, err := client.Do(ctx, c, proto.FileWrite, proto.FileBody{Path: "/run/lvslab/x", Data: []byte("abc")}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for range 3 {
		timed(t, "exec", func() {
			var out bytes.Buffer
			code, err := c.Exec(ctx, []string{"cat", "/run/lvslab/x"}, nil, &out, nil)
			if code != 0 || err != nil || out.String() != "abc" {
				t.Fatalf("exec: %d, %v, %q", code, err, out.String())
			}
		})
	}
	c.Close()
	timed(t, "reconnect", func() { c = vm.Dial(t, proto.EnginePort) })
	if c.BootID() != vm.bootID || c.Enrolled() != nil {
		t.Errorf("after the reconnect: boot id %q, enrolled %v", c.BootID(), c.Enrolled())
	}
}
