package server

import (
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// toldChannel is a channel of which a test sees what it is told.
type toldChannel struct {
	ssh.Channel
	mu   sync.Mutex
	told []string
}

func (c *toldChannel) tell(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, what)
}

func (c *toldChannel) Read([]byte) (int, error)    { return 0, io.EOF }
func (c *toldChannel) Write(p []byte) (int, error) { return len(p), nil }
func (c *toldChannel) CloseWrite() error           { c.tell("eof"); return nil }
func (c *toldChannel) Close() error                { c.tell("close"); return nil }
func (c *toldChannel) Stderr() io.ReadWriter       { return c }
func (c *toldChannel) SendRequest(name string, _ bool, _ []byte) (bool, error) {
	c.tell(name)
	return true, nil
}

// TestEndWaitsForTheAnswer starts a command that ends at once: nothing says so before
// the request for it is answered. A client that sees the end first takes the session
// for lost: EOF, seen once on a loaded machine under the race detector.
func TestEndWaitsForTheAnswer(t *testing.T) {
	ch := &toldChannel{}
	n := &session{ch: ch}
	if !n.request(t.Context(), &ssh.Request{Type: "exec", Payload: ssh.Marshal(oneString{"exit 3"})}) {
		t.Fatal("refused")
	}
	// WNOWAIT leaves the status for the one whose turn it is.
	if err := unix.Waitid(unix.P_PID, n.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if ch.mu.Lock(); len(ch.told) > 0 {
		t.Errorf("before the answer: %q", ch.told)
	}
	ch.mu.Unlock()
	n.answered()
	n.running.Wait()
	if !slices.Contains(ch.told, "exit-status") || ch.told[len(ch.told)-1] != "close" {
		t.Errorf("after the answer: %q", ch.told)
	}
}
