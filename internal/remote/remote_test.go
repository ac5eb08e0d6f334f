package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/remote/remotetest"
)

func specOf(s *remotetest.Server) Spec {
	return Spec{User: "tester", Host: s.Host, Port: s.Port, KeyFile: filepath.Join(s.Dir, "key"), KnownHosts: filepath.Join(s.Dir, "known_hosts")}
}

func open(t *testing.T, s *remotetest.Server) *Host {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	h, err := Open(ctx, specOf(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// The host's key decides: only the one in known_hosts is spoken with, and what
// is said names the file, the key and what to do.
func TestHostKey(t *testing.T) {
	other, _ := remotetest.NewKey(t)
	for name, c := range map[string]struct {
		change  func(*remotetest.Server)
		summary string // "" = it is trusted
		words   []string
	}{
		"right":   {func(*remotetest.Server) {}, "", nil},
		"unknown": {func(s *remotetest.Server) { s.Trust() }, "The host's key is not known", []string{"known_hosts", "SHA256:", "ssh-keygen -lf", "[127.0.0.1]:"}},
		"no file": {func(s *remotetest.Server) { os.Remove(filepath.Join(s.Dir, "known_hosts")) }, "The host's key is not known", []string{"which does not exist"}},
		"changed": {func(s *remotetest.Server) { s.Trust(other.PublicKey()) }, "The host's key has changed",
			[]string{"known_hosts:1", "ssh-keygen -R '[127.0.0.1]:", ssh.FingerprintSHA256(other.PublicKey())}},
		"revoked": {func(s *remotetest.Server) {
			s.Trust(s.Key.PublicKey())
			text, _ := os.ReadFile(filepath.Join(s.Dir, "known_hosts"))
			s.Write("known_hosts", []byte("@revoked "+string(text)))
		}, "The host's key is revoked", []string{"known_hosts:1"}},
		"broken file": {func(s *remotetest.Server) { s.Write("known_hosts", []byte("host ssh-ed25519\n")) }, "The file of known hosts cannot be read", []string{"known_hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := remotetest.Serve(t)
			c.change(s)
			h, err := Open(t.Context(), specOf(s))
			if c.summary == "" {
				if err != nil {
					t.Fatal(err)
				}
				h.Close()
				return
			}
			if err == nil {
				t.Fatal("it was trusted")
			}
			if list := diag.From(err); len(list) != 1 || list[0].Summary != c.summary || list[0].Remedy == "" {
				t.Errorf("%+v", list)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in %v", w, err)
				}
			}
		})
	}
}

func TestKeysThatDoNotDo(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*remotetest.Server, *Spec)
		summary string
	}{
		"another key": {func(s *remotetest.Server, _ *Spec) { _, text := remotetest.NewKey(t); s.Write("key", text) }, "The host of the hypervisor lets nobody in with these keys"},
		"no such key": {func(_ *remotetest.Server, p *Spec) { p.KeyFile += ".none" }, "The SSH key cannot be read"},
		"no key":      {func(s *remotetest.Server, _ *Spec) { s.Write("key", []byte("hello")) }, "The SSH key cannot be read"},
		"none at all": {func(_ *remotetest.Server, p *Spec) { p.KeyFile = "" }, "There is no SSH key"},
		"nobody":      {func(s *remotetest.Server, _ *Spec) { s.Stop() }, "The host of the hypervisor cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			s := remotetest.Serve(t)
			spec := specOf(s)
			c.change(s, &spec)
			_, err := Open(t.Context(), spec)
			if list := diag.From(err); len(list) != 1 || list[0].Summary != c.summary || list[0].Remedy == "" {
				t.Errorf("%v: %+v", err, list)
			}
		})
	}
}

// A key in ~/.ssh is found without being named.
func TestUsualKey(t *testing.T) {
	s := remotetest.Serve(t)
	if err := os.Mkdir(filepath.Join(s.Dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"key": ".ssh/id_ed25519", "known_hosts": ".ssh/known_hosts"} {
		if err := os.Rename(filepath.Join(s.Dir, from), filepath.Join(s.Dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	spec := specOf(s)
	spec.KeyFile, spec.KnownHosts = "", ""
	h, err := Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
}

func echo(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
}

func says(t *testing.T, h *Host, path string) {
	t.Helper()
	c, err := h.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, 5)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestDial(t *testing.T) {
	s := remotetest.Serve(t)
	h := open(t, s)
	path := filepath.Join(t.TempDir(), "sock")
	echo(t, path)
	says(t, h, path)
	if _, err := h.Dial(t.Context(), path+".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	s.Write("plain", nil)
	if _, err := h.Dial(t.Context(), filepath.Join(s.Dir, "plain")); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("a plain file: %v", err)
	}
	s.NoSockets.Store(true)
	if _, err := h.Dial(t.Context(), path); err == nil || diag.From(err)[0].Summary != "The host forbids connections to its sockets" {
		t.Errorf("forbidden: %v", err)
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections for all that", n)
	}
}

// A lost connection is told, and made again by the next call.
func TestLost(t *testing.T) {
	s := remotetest.Serve(t)
	began := time.Now()
	h := open(t, s)
	path := filepath.Join(t.TempDir(), "sock")
	echo(t, path)
	c, err := h.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Lost(began); err != nil {
		t.Errorf("lost before it was: %v", err)
	}
	s.Cut()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the end was not seen")
	}
	for limit := time.Now().Add(20 * time.Second); h.Lost(began) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody noticed")
		}
	}
	if err := h.Lost(began); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), s.Host) {
		t.Errorf("%v", err)
	}
	if err := h.Lost(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("an earlier loss counts: %v", err)
	}
	says(t, h, path)
	if n := s.Connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
	h.Close()
	if _, err := h.Dial(t.Context(), path); !errors.Is(err, ErrLost) {
		t.Errorf("after its close: %v", err)
	}
}

func TestFiles(t *testing.T) {
	s := remotetest.Serve(t)
	h, ctx := open(t, s), t.Context()
	dir := filepath.Join(t.TempDir(), "a", "b")
	file := filepath.Join(dir, "console", "x.log")
	if err := h.Exists(ctx, file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := h.Create(ctx, file, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := h.Tail(ctx, file, 4); err != nil || string(text) != "6789" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := h.ReadFrom(ctx, file, 3, 100); err != nil || string(text) != "3456789" {
		t.Errorf("%q, %v", text, err)
	}
	if err := h.Remove(ctx, dir); err == nil {
		t.Error("a full directory was removed")
	}
	if err := h.Create(ctx, file, 0, 0); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || len(text) != 0 {
		t.Errorf("created over another: %q, %v", text, err)
	}
	for range 2 {
		if err := h.RemoveAll(ctx, dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := h.Exists(ended, file); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// What is uploaded is whole or not there under its name.
func TestPut(t *testing.T) {
	s := remotetest.Serve(t)
	h, ctx := open(t, s), t.Context()
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	s.Write("image", content)
	f, err := Measure(filepath.Join(s.Dir, "image"))
	if err != nil || f.Size != int64(len(content)) || len(f.SHA256) != 64 {
		t.Fatal(f, err)
	}
	dir := filepath.Join(t.TempDir(), "images", f.SHA256)
	to := filepath.Join(dir, "vmlinuz")

	s.Most.Store(1 << 20) // half way
	before, err := h.link(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Put(ctx, f, to, "lab1"); !errors.Is(err, ErrLost) {
		t.Errorf("interrupted: %v", err)
	}
	select {
	case <-before.done:
	default:
		t.Error("the lost connection counts as living")
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file has its name: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("no part was left, so the interruption came too late: %v", list)
	}
	s.Write("other.part-lab2", nil)
	for _, by := range []string{"lab2", "lab1"} {
		if err := h.RemoveParts(ctx, dir, by); err != nil {
			t.Fatal(err)
		}
		list, _ := os.ReadDir(dir)
		if left := len(list); left != map[string]int{"lab2": 1, "lab1": 0}[by] {
			t.Errorf("parts of %s: %v", by, list)
		}
	}

	for i, want := range []bool{true, false} {
		if uploaded, err := h.Put(ctx, f, to, "lab1"); err != nil || uploaded != want {
			t.Errorf("%d: %v, %v", i, uploaded, err)
		}
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := os.Truncate(to, 5); err != nil {
		t.Fatal(err)
	}
	if uploaded, err := h.Put(ctx, f, to, "lab1"); err != nil || !uploaded {
		t.Errorf("over a short one: %v, %v", uploaded, err)
	}
	f.SHA256 = strings.Repeat("0", 64)
	if _, err := h.Put(ctx, f, to+"x", "lab1"); err == nil || diag.From(err)[0].Summary != "An upload arrived damaged" {
		t.Errorf("another content than was measured: %v", err)
	}
	if _, err := os.Stat(to + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("damaged, and has its name: %v", err)
	}
}
