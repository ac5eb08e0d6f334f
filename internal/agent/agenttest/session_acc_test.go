package agenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

func TestAccSessions(t *testing.T) {
	ctx := acceptance(t)
	vm := Boot(t, "client.c")
	cutWhileCalling(ctx, t, vm)
	engine := vm.Dial(t, proto.EnginePort)
	u0, u1 := vm.Dial(t, proto.UserPorts[0]), vm.Dial(t, proto.UserPorts[1])
	t.Run("two user ports and the engine at once", func(t *testing.T) {
		var all sync.WaitGroup
		for i, c := range []*client.Conn{engine, u0, u1} {
			all.Go(func() {
				for range 5 {
					expectExec(ctx, t, c, []string{"sh", "-c", "cat; exit $0", string(rune('0' + i))}, strings.Repeat("x", 100_000), i)
				}
			})
		}
		all.Wait()
	})
	t.Run("exit codes", func(t *testing.T) {
		expectExec(ctx, t, u0, []string{"/no/such/program"}, "", 127)
		expectExec(ctx, t, u0, []string{"sh", "-c", "kill -TERM $$"}, "", 128+15)
		var stderr bytes.Buffer
		code, err := u0.Exec(ctx, []string{"ls", "it's; not there"}, nil, nil, &stderr)
		if code == 0 || err != nil || !strings.Contains(stderr.String(), "it's; not there") {
			t.Errorf("ls: %d, %v, %q", code, err, stderr.String())
		}
	})
	t.Run("signals reach the process group", func(t *testing.T) {
		signals := make(chan string, 1)
		time.AfterFunc(time.Second, func() { signals <- "INT" })
		code, err := u0.Run(ctx, client.Command{Args: []string{"sh", "-c", "sleep 60"}, Signals: signals})
		if code != 128+2 || err != nil {
			t.Errorf("sleep ended with %d, %v", code, err)
		}
	})
	t.Run("a command ends with its context", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if _, err := u0.Exec(short, []string{"sleep", "12345"}, nil, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		expectExec(ctx, t, u0, []string{"sh", "-c", "for i in $(seq 100); do ps | grep -q '[s]leep 12345' || exit 0; sleep 0.1; done; exit 1"}, "", 0)
	})
	t.Run("terminal", func(t *testing.T) {
		var out bytes.Buffer
		code, err := u1.Run(ctx, client.Command{Stdin: strings.NewReader("stty size; echo $TERM; exit 3\n"), Stdout: &out,
			Terminal: &client.Terminal{Name: "vt100", Columns: 91, Rows: 33}})
		if code != 3 || err != nil || !strings.Contains(out.String(), "33 91") || !strings.Contains(out.String(), "vt100") {
			t.Errorf("shell: %d, %v, %q", code, err, out.String())
		}
	})
	t.Run("file transfer", func(t *testing.T) { transfer(t, u0) })
	t.Run("cancelled call", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := client.Do(short, engine, proto.LinkApply, proto.LinkSpec{MAC: "52:54:00:00:00:77", Name: "lan"})
		if err == nil || time.Since(begin) > 10*time.Second {
			t.Errorf("waited %s for a NIC that is not there: %v", time.Since(begin), err)
		}
		t.Logf("error: %v", err)
	})
	t.Run("a wrong host key is refused at once", func(t *testing.T) {
		spec := vm.Spec(proto.UserPorts[2])
		other, err := client.NewKey("")
		check(t, err)
		spec.HostKey = other.Public
		_, err = client.Dial(ctx, spec)
		if err == nil || !strings.Contains(err.Error(), "is not client.c") {
			t.Errorf("error %v", err)
		}
		spec = vm.Spec(proto.UserPorts[2])
		spec.ClientKey = other.Private
		_, err = client.Dial(ctx, spec)
		if err == nil || !strings.Contains(err.Error(), "does not accept this lab's key") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("rude visitors", func(t *testing.T) { rude(ctx, t, vm) })
	// The console is for what matters; visitors come and go without a word.
	if lines := client.LastLines(vm.Console, 20); len(lines) > 6 {
		t.Errorf("the console is chatty:\n%s", strings.Join(lines, "\n"))
	}
}

// cutWhileCalling enrols the guest and leaves the line, which carries calls in
// clear, while one is running: the next visitor is served at once.
func cutWhileCalling(ctx context.Context, t *testing.T, vm *VM) {
	spec := vm.Spec(proto.EnginePort)
	var raw net.Conn
	open := spec.Open
	spec.Open = func(ctx context.Context) (net.Conn, error) {
		var err error
		raw, err = open(ctx)
		return raw, err
	}
	c, err := client.WaitReady(ctx, spec, client.Console{Path: vm.Console, Quiet: time.Minute})
	check(t, err)
	if c.Enrolled() == nil {
		t.Error("the guest had an identity before its first visitor")
	}
	lost := make(chan error, 1)
	go func() {
		// Nobody has the address, so the guest waits for named to have it.
		_, err := client.Do(ctx, c, proto.NamedApply, proto.NamedSpec{ServerID: "x", Zones: []proto.ZoneFile{{Name: "a.test", Text: zoneText}}, Listen: []netip.Addr{vip}})
		lost <- err
	}()
	time.Sleep(200 * time.Millisecond)
	_ = raw.Close()
	if err := <-lost; !errors.Is(err, client.ErrLost) {
		t.Errorf("the call ended with %v", err)
	}
	timed(t, "visit after a cut in clear", func() { check(t, vm.Dial(t, proto.EnginePort).Close()) })
}

func expectExec(ctx context.Context, t *testing.T, c *client.Conn, args []string, stdin string, want int) {
	t.Helper()
	var out, errs bytes.Buffer
	code, err := c.Exec(ctx, args, strings.NewReader(stdin), &out, &errs)
	if code != want || err != nil || out.String() != stdin {
		t.Errorf("%q: code %d, error %v, %d bytes out, stderr %q; want code %d and %d bytes", args, code, err, out.Len(), errs.String(), want, len(stdin))
	}
}

func transfer(t *testing.T, c *client.Conn) {
	f, err := c.SFTP()
	check(t, err)
	defer f.Close()
	const size = 8 << 20
	data := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	w, err := f.Create("/run/lvslab/big")
	check(t, err)
	begin := time.Now()
	_, err = w.ReadFrom(bytes.NewReader(data))
	check(t, err)
	check(t, w.Close())
	t.Logf("upload   %.1f MB/s", size/1e6/time.Since(begin).Seconds())
	r, err := f.Open("/run/lvslab/big")
	check(t, err)
	begin = time.Now()
	got, err := io.ReadAll(r)
	check(t, err)
	t.Logf("download %.1f MB/s", size/1e6/time.Since(begin).Seconds())
	if !bytes.Equal(got, data) {
		t.Error("the file came back differently")
	}
}

// rude leaves a port in the ways in which processes die, each time followed by
// an ordinary visit.
func rude(ctx context.Context, t *testing.T, vm *VM) {
	port := proto.UserPorts[3]
	for name, leave := range map[string]func(c net.Conn){
		"silent":           func(net.Conn) {},
		"garbage":          func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte{0x00, 0xff, '{'}, 50_000)) },
		"half a hello":     func(c net.Conn) { _, _ = c.Write([]byte("\n{\"lvslab\":1,\"nonce\":\"ab")) },
		"hello only":       func(c net.Conn) { _, _ = c.Write([]byte("\n{\"lvslab\":1,\"nonce\":\"ab\"}\n")) },
		"hello and banner": func(c net.Conn) { _, _ = c.Write([]byte("\n{\"lvslab\":1,\"nonce\":\"ab\"}\nSSH-2.0-x\r\n")) },
	} {
		raw, err := vm.Spec(port).Open(ctx)
		check(t, err)
		leave(raw)
		_ = raw.Close()
		timed(t, "visit after "+name, func() {
			c, err := client.Dial(ctx, vm.Spec(port))
			check(t, err)
			defer c.Close()
			expectExec(ctx, t, c, []string{"true"}, "", 0)
		})
	}
	for range 5 { // in the middle of a session, no goodbye
		spec := vm.Spec(port)
		var raw net.Conn
		open := spec.Open
		spec.Open = func(ctx context.Context) (net.Conn, error) {
			var err error
			raw, err = open(ctx)
			return raw, err
		}
		c, err := client.Dial(ctx, spec)
		check(t, err)
		go func() { _, _ = c.Exec(ctx, []string{"cat", "/dev/zero"}, nil, io.Discard, nil) }()
		time.Sleep(200 * time.Millisecond)
		_ = raw.Close()
		timed(t, "visit after a cut", func() {
			c, err := client.Dial(ctx, vm.Spec(port))
			check(t, err)
			expectExec(ctx, t, c, []string{"true"}, "", 0)
			check(t, c.Close())
		})
	}
}
