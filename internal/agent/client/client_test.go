package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"pgregory.net/rapid"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

// caller answers as a function says.
type caller func(calls []proto.Envelope) ([]proto.Result, error)

func (c caller) Call(_ context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	return c(calls)
}

func TestBatch(t *testing.T) {
	wrong := &proto.Error{Code: proto.CodeMismatch, Op: "link.read", Subject: "lan", Message: "is wrong"}
	c := caller(func(calls []proto.Envelope) ([]proto.Result, error) {
		var ops []string
		for _, e := range calls {
			ops = append(ops, e.Op)
		}
		if got := strings.Join(ops, " "); got != "sysctl.read link.read ping" || string(calls[0].Args) != `["a"]` {
			t.Errorf("calls %s %s", got, calls[0].Args)
		}
		return []proto.Result{{Value: json.RawMessage(`{"a":"1"}`)}, {Error: wrong}}, nil
	})
	var b Batch
	first := Add(&b, proto.SysctlRead, []string{"a"})
	second := Add(&b, proto.LinkRead, proto.LinkRef{Name: "lan"})
	third := Add(&b, proto.Ping, proto.PingSpec{})
	err := b.Run(t.Context(), c)
	var e *proto.Error
	if !errors.As(err, &e) || e != wrong || first.Err() != nil || first.Value()["a"] != "1" || !errors.Is(second.Err(), wrong) || !errors.Is(third.Err(), ErrNotRun) {
		t.Errorf("batch: %v; %v %v; %v; %v", err, first.Value(), first.Err(), second.Err(), third.Err())
	}
}

func TestBatchWithoutOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		results []proto.Result
		err     error
		want    string
	}{
		"lost":           {nil, ErrLost, ErrLost.Error()},
		"short":          {[]proto.Result{{}}, nil, "the agent answered 1 of 2 calls"},
		"another type":   {[]proto.Result{{Value: json.RawMessage(`7`)}, {}}, nil, ""},
		"nothing at all": {[]proto.Result{{}, {}}, nil, ""},
	} {
		var b Batch
		f := Add(&b, proto.LinkRead, proto.LinkRef{})
		Add(&b, proto.LinkRead, proto.LinkRef{})
		err := b.Run(t.Context(), caller(func([]proto.Envelope) ([]proto.Result, error) { return c.results, c.err }))
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if (name == "lost" || name == "another type") != (f.Err() != nil) {
			t.Errorf("%s: the first call says %v", name, f.Err())
		}
	}
	var empty Batch
	if err := empty.Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
	var bad Batch
	Add(&bad, proto.Call[chan int, proto.None]{Op: "x"}, nil)
	if err := bad.Run(t.Context(), nil); err == nil {
		t.Error("arguments that can't be sent passed")
	}
}

// line is a request channel with a scripted agent at its end.
func line(t *testing.T) (r *rpc, requests *json.Decoder, replies *json.Encoder, cut func()) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return newRPC(here), json.NewDecoder(there), json.NewEncoder(there), func() { _ = there.Close() }
}

func TestRepliesFindTheirCalls(t *testing.T) {
	r, requests, replies, _ := line(t)
	go func() {
		var got []proto.Request
		for range 3 {
			var req proto.Request
			if requests.Decode(&req) != nil {
				return
			}
			got = append(got, req)
		}
		slices.Reverse(got)
		_ = replies.Encode(proto.Reply{ID: 4711}) // nobody's
		for _, req := range got {
			_ = replies.Encode(proto.Reply{ID: req.ID, Results: []proto.Result{{Value: req.Calls[0].Args}}})
		}
	}()
	errs := make(chan error, 3)
	for i := range 3 {
		go func() {
			arg := fmt.Sprint(i)
			res, err := r.call(t.Context(), []proto.Envelope{{Op: "x", Args: json.RawMessage(arg)}})
			if err == nil && string(res[0].Value) != arg {
				err = fmt.Errorf("call %s got %s", arg, res[0].Value)
			}
			errs <- err
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	r, requests, replies, _ := line(t)
	cancelled := make(chan proto.Request, 2)
	go func() {
		for {
			var req proto.Request
			if requests.Decode(&req) != nil {
				return
			}
			cancelled <- req
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := r.call(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	first, second := <-cancelled, <-cancelled
	if first.DeadlineMS < 1 || first.DeadlineMS > 30 || second.Cancel != first.ID {
		t.Errorf("requests %+v, %+v", first, second)
	}
	// The guest's own word on a call that has run out of time says more.
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	go func() {
		req := <-cancelled
		<-cancelled
		_ = replies.Encode(proto.Reply{ID: req.ID, Results: []proto.Result{{Error: &proto.Error{Code: proto.CodeTimeout, Message: "waited for x"}}}})
	}()
	if res, err := r.call(ctx, nil); err != nil || len(res) != 1 || res[0].Error.Message != "waited for x" {
		t.Errorf("results %+v, %v", res, err)
	}
}

func TestCallDoesNotHangOnADeadGuest(t *testing.T) {
	here, there := net.Pipe() // nobody reads: writing blocks
	defer there.Close()
	defer here.Close()
	r := newRPC(here)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.call(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestLostConnectionEndsCalls(t *testing.T) {
	r, requests, _, cut := line(t)
	go func() {
		var req proto.Request
		_ = requests.Decode(&req)
		cut()
	}()
	if _, err := r.call(t.Context(), nil); !errors.Is(err, ErrLost) || !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
	<-r.done
	if _, err := r.call(t.Context(), nil); !errors.Is(err, ErrLost) {
		t.Errorf("a later call: %v", err)
	}
}

// TestQuoteIsUnderstoodByAShell: what Quote makes is the same words to sh.
func TestQuoteIsUnderstoodByAShell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.StringMatching(`[ -~\t\n]{0,12}`), 1, 5).Draw(t, "args")
		out, err := exec.Command("/bin/sh", "-c", `printf '%s\0' `+Quote(args)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, args) {
			t.Fatalf("%q became %q", args, got)
		}
	})
}

func TestUserPortsAreLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	node := `backend.ns["a/b"]`
	var claims []*Claim
	for i := range proto.UserPorts {
		c, err := ClaimUserPort(dir, node, fmt.Sprint("exec number ", i))
		if err != nil || c.Port != proto.UserPorts[i] {
			t.Fatalf("claim %d: %+v, %v", i, c, err)
		}
		claims = append(claims, c)
	}
	if c, err := ClaimUserPort(dir, "backend.ns", "exec"); err != nil {
		t.Errorf("another machine's ports are taken: %v", err)
	} else {
		c.Release()
	}
	_, err := ClaimUserPort(dir, node, "exec")
	if !errors.Is(err, ErrPortsBusy) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d, exec number 2, since ", os.Getpid())) {
		t.Errorf("all ports taken: %v", err)
	}
	claims[2].Release()
	c, err := ClaimUserPort(dir, node, "exec")
	if err != nil || c.Port != proto.UserPorts[2] {
		t.Errorf("after a release: %+v, %v", c, err)
	}
}

func never(context.Context) (net.Conn, error) { return nil, errors.New("connection refused") }

func TestSilentAndPanickingBoots(t *testing.T) {
	key, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	spec := DialSpec{Node: "client.c", Open: never, ClientKey: key.Private, HostKey: key.Public}
	for name, c := range map[string]struct {
		console, want string
		quiet, all    time.Duration
	}{
		"silent":        {"a\nb\n", "nothing on its console for 300ms and no answer from the agent", 300 * time.Millisecond, time.Minute},
		"no console":    {"", "; its console is empty", 300 * time.Millisecond, time.Minute},
		"kernel panic":  {"x\n[ 1.0] Kernel panic - not syncing: VFS\nend\n", "Kernel panic - not syncing: VFS; last console lines", time.Minute, time.Minute},
		"came up since": {"[ 1.0] Kernel panic - not syncing: sysrq\nlvslab-agent: ports open, 6.01 s after boot\n", "time is up", time.Minute, 250 * time.Millisecond},
		"agent":         {"lvslab-agent: fatal: mount /dev/vda: no such device\n", "lvslab-agent: fatal: mount /dev/vda", time.Minute, time.Minute},
		"time is up":    {"a\n", "time is up; last console lines:\n  a", time.Minute, 250 * time.Millisecond},
	} {
		path := filepath.Join(t.TempDir(), "console")
		if c.console != "" {
			if err := os.WriteFile(path, []byte(c.console), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), c.all)
		begin := time.Now()
		_, err := WaitReady(ctx, spec, Console{Path: path, Quiet: c.quiet})
		cancel()
		var boot *BootError
		var f *diag.Failure
		if !errors.As(err, &boot) || !strings.Contains(boot.Error(), c.want) || !errors.As(err, &f) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := WaitReady(ctx, spec, Console{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPanicShowsTheLinesAroundIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	text := "lvslab-agent: ports open, 6 s after boot\nb\nc\nd\ne\nf\n[ 9.1] Kernel panic - not syncing: Fatal\n1\n2\n3\n4\n5\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	reason, around := Panic(path, 0)
	if reason != "Kernel panic - not syncing: Fatal" || strings.Join(around, " ") != "b c d e f [ 9.1] Kernel panic - not syncing: Fatal 1 2 3" {
		t.Errorf("%q %q", reason, around)
	}
	if reason, around := Panic(path, int64(len(text))); reason != "" || around != nil {
		t.Errorf("nothing was said since: %q %q", reason, around)
	}
}

func TestAwaitCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	up := "lvslab-agent: ports open, 6 s after boot\n"
	panicked := "[ 1.0] Kernel panic - not syncing: an earlier one\n"
	for name, c := range map[string]struct{ had, says, want string }{
		"panic":                {panicked + up, "Kernel panic - not syncing: now\n", "Kernel panic - not syncing: now"},
		"reboot":               {panicked + up, up, "it has booted again"},
		"chat":                 {panicked + up, "[ 9.9] a message\n", ""},
		"contact was quicker":  {"", up, ""},
		"a clone is rebooted":  {"lvslab-agent: enrolled as client.c, 16 s after boot\n", "[   21.3] reboot: Restarting system\n", "it boots again"},
		"it is halted":         {panicked + up, "[   21.3] reboot: System halted\n", "it was halted"},
		"and then it rebooted": {"", up + up, "it has booted again"},
	} {
		if err := os.WriteFile(path, []byte(c.had), 0o600); err != nil {
			t.Fatal(err)
		}
		from := ConsoleSize(path)
		// Late enough for the watcher to have looked at what there was.
		time.AfterFunc(150*time.Millisecond, func() { _ = os.WriteFile(path, []byte(c.had+c.says), 0o600) })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if c.want == "" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		}
		if got, _ := AwaitCrash(ctx, path, from); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		cancel()
	}
	if ConsoleSize(filepath.Join(t.TempDir(), "none")) != 0 {
		t.Error("a console that is not there has a size")
	}
}

func TestDialEndsWhenTheMachineIsGone(t *testing.T) {
	key, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	gone := diag.Fail(nil, "client.c has ended", "Apply again.", "its QEMU is gone")
	spec := DialSpec{Node: "client.c", ClientKey: key.Private, HostKey: key.Public,
		Open: func(context.Context) (net.Conn, error) { return nil, gone }}
	if _, err := Dial(t.Context(), spec); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	key, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	spec := DialSpec{Node: "client.c", Open: never, ClientKey: key.Private, HostKey: key.Public}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, spec); err == nil || !strings.Contains(err.Error(), "connection refused") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no socket: %v", err)
	}
	spec.Open = func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			var h proto.Hello
			if json.NewDecoder(there).Decode(&h) == nil {
				_ = proto.WriteLine(there, proto.Hello{Protocol: proto.Version + 1, Nonce: h.Nonce})
			}
		}()
		return here, nil
	}
	if _, err := Dial(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "speaks another protocol") {
		t.Errorf("another version: %v", err)
	}
}

func TestKeys(t *testing.T) {
	k, err := NewKey("lab")
	if err != nil {
		t.Fatal(err)
	}
	public, err := PublicOf(k.Private)
	if err != nil || public != k.Public || !strings.HasPrefix(public, ssh.KeyAlgoED25519+" ") || strings.Contains(public, "lab") {
		t.Errorf("public key %q of %q, %v", public, k.Public, err)
	}
	if _, err := PublicOf([]byte("no key")); err == nil {
		t.Error("no key passed")
	}
}
