package agenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/agent/server"
)

// hostPort is a port on this host: a socket that serves one visitor at a time,
// as QEMU's do.
type hostPort struct {
	name string
	net.Listener
}

func (p hostPort) Name() string { return p.name }

func (p hostPort) Accept(ctx context.Context) (io.ReadWriteCloser, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Listener.Close() })
	defer stop()
	return p.Listener.Accept()
}

// agentHere runs an agent in this process, without touching the machine, and
// returns how to dial its ports.
func agentHere(t *testing.T) func(port string) client.DialSpec {
	t.Helper()
	dir, err := os.MkdirTemp("", "lvslab")
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var ended []chan error
	t.Cleanup(func() {
		cancel()
		for _, e := range ended {
			if err := <-e; !errors.Is(err, context.Canceled) {
				t.Errorf("a port ended with %v", err)
			}
		}
		_ = os.RemoveAll(dir)
	})
	s := server.New(ctx, server.Options{Version: "test", Log: func(l string) { t.Log(l) }})
	for _, name := range []string{proto.EnginePort, proto.UserPorts[0]} {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		check(t, err)
		e := make(chan error, 1)
		ended = append(ended, e)
		go func() { e <- s.ServePort(ctx, hostPort{name, l}) }()
	}
	vm := &VM{Node: "backend.ns[0]", dir: dir, bootID: "boot"}
	vm.key, err = client.NewKey("")
	check(t, err)
	vm.host, err = client.NewKey("")
	check(t, err)
	return vm.Spec
}

func dial(t *testing.T, spec client.DialSpec) (*client.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.Dial(ctx, spec)
}

func TestEnrolmentComesFirst(t *testing.T) {
	spec := agentHere(t)
	if _, err := dial(t, spec(proto.UserPorts[0])); !errors.Is(err, client.ErrNotEnrolled) {
		t.Errorf("a user port before enrolment: %v", err)
	}
	c, err := dial(t, spec(proto.EnginePort))
	check(t, err)
	if c.BootID() != "boot" || c.Enrolled() == nil || c.Enrolled().Agent != "test" || c.Node() != "backend.ns[0]" {
		t.Errorf("enrolled: %q %+v", c.BootID(), c.Enrolled())
	}
	if _, err := c.Exec(t.Context(), []string{"true"}, nil, nil, nil); !errors.Is(err, client.ErrCallsOnly) {
		t.Errorf("a command on the line of the enrolment: %v", err)
	}
	if _, err := c.SFTP(); !errors.Is(err, client.ErrCallsOnly) {
		t.Errorf("files on the line of the enrolment: %v", err)
	}
	info, err := client.Do(t.Context(), c, proto.Info, proto.None{})
	check(t, err)
	if info.Node != "backend.ns[0]" || info.BootID != "boot" {
		t.Errorf("info %+v", info)
	}
	check(t, c.Close())
	<-c.Done()
	if _, err := client.Do(t.Context(), c, proto.Info, proto.None{}); !errors.Is(err, client.ErrLost) {
		t.Errorf("a call on a closed connection: %v", err)
	}
	c, err = dial(t, spec(proto.EnginePort))
	check(t, err)
	if c.BootID() != "boot" || c.Enrolled() != nil {
		t.Errorf("second visit: %q %+v", c.BootID(), c.Enrolled())
	}
	check(t, c.Close())
}

func TestSessions(t *testing.T) {
	spec := agentHere(t)
	engine, err := dial(t, spec(proto.EnginePort))
	check(t, err)
	defer engine.Close()
	c, err := dial(t, spec(proto.UserPorts[0]))
	check(t, err)
	defer c.Close()
	expectExec(t.Context(), t, c, []string{"cat"}, strings.Repeat("0123456789", 50_000), 0)
	expectExec(t.Context(), t, c, []string{"sh", "-c", "exit 7"}, "", 7)
	expectExec(t.Context(), t, c, []string{"sh", "-c", "kill -KILL $$"}, "", 128+9)
	expectExec(t.Context(), t, c, []string{"no-such-program-here"}, "", 127)
	var out bytes.Buffer
	code, err := c.Run(t.Context(), client.Command{Args: []string{"sh", "-c", `test -t 1 && echo "$X"`}, Env: []string{"X=y z"}, Stdout: &out,
		Terminal: &client.Terminal{Name: "vt100", Columns: 80, Rows: 24}})
	if code != 0 || err != nil || !strings.Contains(out.String(), "y z") {
		t.Errorf("terminal: %d, %v, %q", code, err, out.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Exec(ctx, []string{"sleep", "60"}, nil, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command past its deadline: %v", err)
	}
	f, err := c.SFTP()
	check(t, err)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "f")
	w, err := f.Create(path)
	check(t, err)
	_, err = w.Write([]byte("by sftp"))
	check(t, errors.Join(err, w.Close()))
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "by sftp" {
		t.Errorf("file %q, %v", got, err)
	}
}

// TestACutConnectionKillsItsCommands: nothing goes on running in the guest for
// somebody who has gone.
func TestACutConnectionKillsItsCommands(t *testing.T) {
	spec := agentHere(t)
	engine, err := dial(t, spec(proto.EnginePort))
	check(t, err)
	defer engine.Close()
	c, err := dial(t, spec(proto.UserPorts[0]))
	check(t, err)
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	done := make(chan error, 1)
	go func() {
		script := `cd "$0" && echo $$ > pid && mv pid ready && sleep 60; touch late`
		_, err := c.Exec(context.Background(), []string{"sh", "-c", script, dir}, nil, nil, nil)
		done <- err
	}()
	waitFile(t, ready)
	check(t, c.Close())
	if err := <-done; !errors.Is(err, client.ErrLost) {
		t.Errorf("the command ended with %v", err)
	}
	again, err := dial(t, spec(proto.UserPorts[0])) // served only after the last visit's commands have ended
	check(t, err)
	defer again.Close()
	pid, err := os.ReadFile(ready)
	check(t, err)
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("process %s lives on", pid)
	}
}

// frozen is a connection from which nothing comes any more once it is frozen, while
// it stays open: what a guest that stands still looks like.
type frozen struct {
	net.Conn
	ice chan struct{}
}

func (f *frozen) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	select {
	case <-f.ice:
		if err == nil {
			_, err = io.Copy(io.Discard, f.Conn) // until it is closed
		}
		return 0, errors.Join(io.EOF, err)
	default:
		return n, err
	}
}

func TestSilenceIsNoticed(t *testing.T) {
	spec := agentHere(t)
	engine, err := dial(t, spec(proto.EnginePort))
	check(t, err)
	defer engine.Close()
	ice := make(chan struct{})
	user := spec(proto.UserPorts[0])
	open := user.Open
	user.Open = func(ctx context.Context) (net.Conn, error) {
		c, err := open(ctx)
		return &frozen{c, ice}, err
	}
	c, err := dial(t, user)
	check(t, err)
	const limit = 200 * time.Millisecond
	// One that answers is asked again and again, until nobody wants to know any more.
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	defer cancel()
	if c.AwaitSilence(ctx, limit) {
		t.Error("a guest that answers counts as silent")
	}
	close(ice)
	began := time.Now()
	if !c.AwaitSilence(t.Context(), limit) || time.Since(began) < limit {
		t.Errorf("a guest that stands still was noticed after %s", time.Since(began))
	}
	check(t, c.Close())
	if c.AwaitSilence(t.Context(), limit) {
		t.Error("a connection that was closed counts as silent")
	}
}
