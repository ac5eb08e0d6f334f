package libvirt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// fed makes a pipe and a template of 4 MiB that begins with 100 bytes of its own head.
func fed(t *testing.T) (pipe string, template *os.File, stream []byte) {
	t.Helper()
	dir := t.TempDir()
	pipe = filepath.Join(dir, "pipe")
	if err := makePipe(pipe); err != nil {
		t.Fatal(err)
	}
	stream = bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	path := filepath.Join(dir, "memory")
	if err := os.WriteFile(path, append(make([]byte, 100), stream...), 0o644); err != nil {
		t.Fatal(err)
	}
	template, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { template.Close() })
	return pipe, template, stream
}

func TestFeed(t *testing.T) {
	pipe, template, stream := fed(t)
	got := make(chan []byte, 1)
	go func() {
		time.Sleep(20 * time.Millisecond) // the feeder is there first
		b, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	if err := feed(t.Context(), pipe, []byte("HEAD"), template, 100); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, append([]byte("HEAD"), stream...)) {
		t.Errorf("read %d bytes, want %d", len(b), 4+len(stream))
	}
}

func TestFeedWithoutReader(t *testing.T) {
	pipe, template, _ := fed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := feed(ctx, pipe, []byte("HEAD"), template, 100); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestFeedWhoseReaderDies(t *testing.T) {
	pipe, template, _ := fed(t)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.CopyN(io.Discard, f, 1<<20)
		f.Close()
	}()
	if err := feed(t.Context(), pipe, []byte("HEAD"), template, 100); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v", err)
	}
}

func TestFeedWhoseReaderHangs(t *testing.T) {
	pipe, template, _ := fed(t)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan *os.File, 1)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
		cancel()
		opened <- f
	}()
	if err := feed(ctx, pipe, []byte("HEAD"), template, 100); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	(<-opened).Close()
}

// TestMakePipeFreesAnOldReader: a process that died between making the pipe and
// feeding it has left a reader that waits.
func TestMakePipeFreesAnOldReader(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := makePipe(pipe); err != nil {
		t.Fatal(err)
	}
	freed := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(pipe)
		freed <- b
	}()
	time.Sleep(300 * time.Millisecond)
	if err := makePipe(pipe); err != nil {
		t.Fatal(err)
	}
	select {
	case b := <-freed:
		if len(b) > 0 {
			t.Errorf("the old reader has read %q", b)
		}
	case <-time.After(5 * time.Second):
		t.Error("the old reader still waits")
	}
}
