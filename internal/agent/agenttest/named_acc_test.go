package agenttest

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// TestAccNamedFromTemplate: a named that ran before the guest knew who it is gets
// its id and its zones without reading its configuration again, and is then like
// any other.
func TestAccNamedFromTemplate(t *testing.T) {
	ctx := acceptance(t)
	vm := Boot(t, "backend.ns[1]")
	check(t, client.AwaitUnenrolled(ctx, vm.Node, vm.Spec(proto.EnginePort).Open, client.Console{Path: vm.Console, Quiet: time.Minute}, proto.PrepareNamed))
	c := vm.Dial(t, proto.EnginePort)
	lo := netip.MustParseAddr("127.0.0.1")
	spec := proto.NamedSpec{ServerID: `backend.ns["b"]`, Listen: []netip.Addr{lo}, Zones: []proto.ZoneFile{
		{Name: "lab.test", Text: zoneText}, {Name: "0/25.2.0.192.in-addr.arpa", Text: zoneText}}}
	var st proto.NamedState
	before := vm.CPU(t)
	timed(t, "first zones", func() { st = do(ctx, t, c, proto.NamedApply, spec) })
	added := vm.CPU(t) - before
	if len(st.Zones) != 2 || st.ServerID != spec.ServerID {
		t.Errorf("%+v", st)
	}
	expectID(ctx, t, c, lo, spec.ServerID)
	if log := namedLog(ctx, t, vm); strings.Contains(log, "reloading configuration") {
		t.Errorf("named has read its configuration again:\n%s", log)
	}
	// named alone has that name.
	u := vm.Dial(t, proto.UserPorts[0])
	expectExec(ctx, t, u, []string{"sh", "-c", `test "$(hostname)" = backend-ns-1`}, "", 0)
	// A signal from a person, then more zones: named.conf is the whole truth.
	expectExec(ctx, t, u, []string{"sh", "-c", "kill -HUP $(pidof named)"}, "", 0)
	spec.Zones = append(spec.Zones, proto.ZoneFile{Name: "more.test", Text: zoneText})
	before = vm.CPU(t)
	timed(t, "one zone more", func() { st = do(ctx, t, c, proto.NamedApply, spec) })
	t.Logf("processor time: %s for the first zones, %s for a reload", added, vm.CPU(t)-before)
	if len(st.Zones) != 3 {
		t.Errorf("%+v", st)
	}
	expectID(ctx, t, c, lo, spec.ServerID)
	if log := namedLog(ctx, t, vm); strings.Contains(log, "reloading configuration failed") {
		t.Errorf("named could not read its configuration again:\n%s", log)
	}
}

// TestAccNamedFromTemplateRefuses: a zone with an error is named as after a start.
func TestAccNamedFromTemplateRefuses(t *testing.T) {
	ctx := acceptance(t)
	vm := Boot(t, "backend.ns[1]")
	check(t, client.AwaitUnenrolled(ctx, vm.Node, vm.Spec(proto.EnginePort).Open, client.Console{Path: vm.Console, Quiet: time.Minute}, proto.PrepareNamed))
	c := vm.Dial(t, proto.EnginePort)
	lo := netip.MustParseAddr("127.0.0.1")
	spec := proto.NamedSpec{ServerID: "backend.ns[1]", Listen: []netip.Addr{lo}, Zones: []proto.ZoneFile{
		{Name: "lab.test", Text: zoneText}, {Name: "bad.test", Text: zoneText + "broken IN A 1.2.3\n"}}}
	_, err := client.Do(ctx, c, proto.NamedApply, spec)
	refused(t, err, proto.CodeInvalid, "bad.test.zone:6: near '1.2.3': bad dotted quad (line 6: broken IN A 1.2.3)")
	spec.Zones = spec.Zones[:1]
	if st := do(ctx, t, c, proto.NamedApply, spec); len(st.Zones) != 1 {
		t.Errorf("%+v", st)
	}
	expectID(ctx, t, c, lo, spec.ServerID)
}

// expectID asks named who it is in each way that it can be asked.
func expectID(ctx context.Context, t *testing.T, c *client.Conn, at netip.Addr, want string) {
	t.Helper()
	for _, name := range []string{"hostname.bind", "id.server"} {
		q := do(ctx, t, c, proto.Query, proto.QuerySpec{Server: at, Name: name, Type: "TXT", Class: "CH", NSID: true})
		if len(q.Answers) != 1 || strings.ReplaceAll(q.Answers[0], `\"`, `"`) != `"`+want+`"` || q.NSID != want {
			t.Errorf("%s: %+v, want %s", name, q, want)
		}
	}
}

// namedLog is what named has logged since its start.
func namedLog(ctx context.Context, t *testing.T, vm *VM) string {
	t.Helper()
	u := vm.Dial(t, proto.UserPorts[1])
	defer u.Close()
	var out bytes.Buffer
	_, err := u.Exec(ctx, []string{"cat", "/run/lvslab/named.log"}, nil, &out, nil)
	check(t, err)
	return out.String()
}
