package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

var (
	echoCall  = proto.Call[string, string]{Op: "test.echo"}
	failCall  = proto.Call[string, string]{Op: "test.fail"}
	panicCall = proto.Call[proto.None, proto.None]{Op: "test.panic"}
	waitCall  = proto.Call[proto.None, proto.None]{Op: "test.wait"}
)

// bare returns a server with test operations only.
func bare(t *testing.T) *Server {
	t.Helper()
	s := &Server{version: "test", life: t.Context(), ops: map[string]operation{}, preparations: map[string]func(context.Context) error{}, log: func(string) {}}
	Handle(s, echoCall, func(_ context.Context, a string) (string, error) { return a, nil })
	Handle(s, failCall, func(_ context.Context, a string) (string, error) {
		return "", fail(proto.CodeMismatch, a, "is wrong")
	})
	Handle(s, panicCall, func(context.Context, proto.None) (proto.None, error) { panic("oops") })
	Handle(s, waitCall, func(ctx context.Context, _ proto.None) (proto.None, error) {
		<-ctx.Done()
		return proto.None{}, ctx.Err()
	})
	return s
}

func envelope(op, args string) proto.Envelope {
	return proto.Envelope{Op: op, Args: json.RawMessage(args)}
}

func TestBatchEndsAtFirstError(t *testing.T) {
	reply := bare(t).carryOut(t.Context(), proto.Request{ID: 7, Calls: []proto.Envelope{
		envelope("test.echo", `"a"`), envelope("test.fail", `"eth0"`), envelope("test.echo", `"b"`)}})
	if reply.ID != 7 || len(reply.Results) != 2 || string(reply.Results[0].Value) != `"a"` {
		t.Fatalf("reply %+v", reply)
	}
	if e := reply.Results[1].Error; e == nil || *e != (proto.Error{Code: proto.CodeMismatch, Op: "test.fail", Subject: "eth0", Message: "is wrong"}) {
		t.Errorf("error %+v", e)
	}
}

func TestErrorsBecomeTheProtocols(t *testing.T) {
	for _, c := range []struct {
		call       proto.Envelope
		deadline   int64
		code, text string
	}{
		{envelope("test.unknown", ""), 0, proto.CodeUnsupported, "test.unknown: this agent (lvslab test) does not know"},
		{envelope("test.echo", `7`), 0, proto.CodeInvalid, "test.echo: arguments"},
		{envelope("test.panic", ``), 0, proto.CodeFailed, "test.panic: panic: oops"},
		{envelope("test.wait", `{}`), 5, proto.CodeTimeout, "test.wait: context deadline exceeded"},
		{envelope("test.wait", `null`), 5, proto.CodeTimeout, "test.wait: context deadline exceeded"},
	} {
		reply := bare(t).carryOut(t.Context(), proto.Request{Calls: []proto.Envelope{c.call}, DeadlineMS: c.deadline})
		e := reply.Results[0].Error
		if e == nil || e.Code != c.code || !strings.HasPrefix(e.Error(), c.text) {
			t.Errorf("%s: %+v, want %s %q", c.call.Op, e, c.code, c.text)
		}
	}
	if e := asError("x", &os.PathError{Op: "open", Path: "p", Err: os.ErrNotExist}); e.Code != proto.CodeNotFound {
		t.Errorf("a missing file has code %s", e.Code)
	}
}

func TestOperationsAreRegisteredOnce(t *testing.T) {
	s := New(t.Context(), Options{})
	if len(s.ops) < 30 {
		t.Errorf("%d operations", len(s.ops))
	}
	defer func() {
		if recover() == nil {
			t.Error("a second registration passed")
		}
	}()
	Handle(s, proto.Ping, ping)
}

// TestRequestsRunSideBySide: a slow request does not hold up a quick one, is
// ended by its cancellation, and those still running end with the stream.
func TestRequestsRunSideBySide(t *testing.T) {
	here, there := io.Pipe()
	back, answers := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- bare(t).serveRPC(t.Context(), stream{here, answers}) }()
	out, in := json.NewEncoder(there), json.NewDecoder(back)
	send := func(r proto.Request) {
		if err := out.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(id uint64) proto.Reply {
		var r proto.Reply
		if err := in.Decode(&r); err != nil || r.ID != id {
			t.Fatalf("reply %+v, %v, want %d", r, err, id)
		}
		return r
	}
	send(proto.Request{ID: 1, Calls: []proto.Envelope{envelope("test.wait", "{}")}})
	send(proto.Request{ID: 2, Calls: []proto.Envelope{envelope("test.echo", `"quick"`)}})
	receive(2)
	send(proto.Request{Cancel: 99})
	send(proto.Request{Cancel: 1})
	if r := receive(1); r.Results[0].Error.Code != proto.CodeTimeout {
		t.Errorf("cancelled: %+v", r.Results[0].Error)
	}
	send(proto.Request{ID: 3, Calls: []proto.Envelope{envelope("test.wait", "{}")}})
	go func() { _, _ = io.Copy(io.Discard, back) }()
	_ = there.Close()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("serveRPC outlives its stream")
	}
}

type stream struct {
	io.Reader
	io.WriteCloser
}

// TestAHelloEndsRequests: a host that comes before the leaving of the last one
// was noticed is not taken for it, and a reply nobody reads holds nothing up.
func TestAHelloEndsRequests(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	served := make(chan error, 1)
	go func() { served <- bare(t).serveRPC(t.Context(), far) }()
	out := json.NewEncoder(near)
	for _, line := range []any{proto.Request{ID: 1, Calls: []proto.Envelope{envelope("test.echo", `"unread"`)}}, proto.Hello{Protocol: proto.Version, Nonce: "n"}} {
		if err := out.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-served:
		if !errors.Is(err, errNoRequest) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the stream goes on")
	}
}

func TestGreet(t *testing.T) {
	hello, banner := `{"lvslab":2,"nonce":"n"}`+"\n", "SSH-2.0-x\r\n"
	known := &identity{node: "backend.ns[0]", bootID: "b1"}
	for name, c := range map[string]struct {
		id           *identity
		sent, answer string
		ssh          bool
	}{
		"hello, then SSH":       {known, hello + banner, `{"lvslab":2,"nonce":"n","enrolled":true,"boot_id":"b1"}`, true},
		"after junk":            {known, "junk\x00\n" + banner + "\n" + hello + banner, `{"lvslab":2,"nonce":"n","enrolled":true,"boot_id":"b1"}`, true},
		"SSH without hello":     {known, banner, "", false},
		"asked twice":           {known, hello + "\n" + hello + banner, `{"lvslab":2,"nonce":"n","enrolled":true,"boot_id":"b1"}` + "\n\n" + `{"lvslab":2,"nonce":"n","enrolled":true,"boot_id":"b1"}`, true},
		"not enrolled yet":      {nil, hello + banner, `{"lvslab":2,"nonce":"n"}`, false},
		"enrol without a hello": {nil, `{"node":"x","host_key":"AA=="}` + "\n" + hello, `{"lvslab":2,"nonce":"n"}`, false},
	} {
		s := bare(t)
		s.id = c.id
		var out bytes.Buffer
		r := bufio.NewReader(strings.NewReader(c.sent))
		g, err := s.greet(proto.EnginePort, r, &out)
		if got := strings.TrimSpace(out.String()); got != c.answer {
			t.Errorf("%s: answered %q, want %q", name, got, c.answer)
		}
		if c.ssh != (err == nil && g == greeting{id: c.id}) || !c.ssh && !errors.Is(err, io.EOF) {
			t.Errorf("%s: %+v, error %v", name, g, err)
		}
		if rest, _ := r.Peek(len(banner)); c.ssh && string(rest) != banner {
			t.Errorf("%s: SSH would read %q", name, rest)
		}
	}
}

func TestPrepare(t *testing.T) {
	hello := `{"lvslab":2,"nonce":"n"}` + "\n"
	known := &identity{node: "backend.ns[0]", bootID: "b1"}
	for name, c := range map[string]struct {
		id      *identity
		port    string
		sent    string
		answer  string
		started int
	}{
		"started":            {nil, proto.EnginePort, hello + `{"prepare":["a","a"]}`, `{"prepared":["a","a"]}`, 2},
		"unknown":            {nil, proto.EnginePort, hello + `{"prepare":["a","b","a"]}`, `cannot prepare \"b\"`, 1},
		"fails":              {nil, proto.EnginePort, hello + `{"prepare":["bad"]}`, `bad: no luck`, 0},
		"has an identity":    {known, proto.EnginePort, hello + `{"prepare":["a"]}`, "has an identity already", 0},
		"on another port":    {nil, proto.UserPorts[0], hello + `{"prepare":["a"]}`, "", 0},
		"without a hello":    {nil, proto.EnginePort, `{"prepare":["a"]}`, "", 0},
		"nothing to prepare": {nil, proto.EnginePort, hello + `{"prepare":[]}`, "", 0},
	} {
		s := bare(t)
		s.id = c.id
		started := 0
		s.preparations["a"] = func(context.Context) error { started++; return nil }
		s.preparations["bad"] = func(context.Context) error { return errors.New("no luck") }
		var out bytes.Buffer
		_, _ = s.greet(c.port, bufio.NewReader(strings.NewReader(c.sent+"\n")), &out)
		_, answer, _ := strings.Cut(strings.TrimSpace(out.String()), "\n\n")
		if !strings.Contains(answer, c.answer) || c.answer == "" && answer != "" || started != c.started {
			t.Errorf("%s: answered %q, started %d", name, answer, started)
		}
	}
}

// FuzzGreet: no bytes make the agent fall over or enrol.
func FuzzGreet(f *testing.F) {
	f.Add([]byte("{\"lvslab\":1,\"nonce\":\"n\"}\n{\"node\":\"x\",\"host_key\":\"AA==\",\"boot_id\":\"b\"}\nSSH-2.0"))
	f.Add([]byte("\n\n\n{}"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := bare(t)
		if _, err := s.greet(proto.EnginePort, bufio.NewReader(bytes.NewReader(sent)), io.Discard); err == nil {
			t.Error("SSH would begin without an identity")
		}
	})
}

func TestEnrolRefusesBadIdentities(t *testing.T) {
	for want, e := range map[string]proto.Enrol{
		"host key":   {Node: "x", HostKey: []byte("no key"), BootID: "b"},
		"no entropy": {Node: "x", HostKey: []byte("no key"), BootID: "b"},
	} {
		s := bare(t)
		if want == "no entropy" {
			s.seed = func(proto.Enrol) error { return errors.New("no entropy") }
		}
		if a := s.enrol(e); !strings.Contains(a.Error, want) || s.identity() != nil {
			t.Errorf("answer %+v, want %q", a, want)
		}
	}
}
