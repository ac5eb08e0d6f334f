// Package remotetest is an SSH server for tests, in the test's own process, that
// does what OpenSSH's does for a lab on another machine.
package remotetest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Server passes connections on to sockets of this machine, and gives access to
// its files.
type Server struct {
	// Dir is the client's: the files key and known_hosts are in it.
	Dir string
	// Host and Port are where it listens.
	Host string
	Port int
	// Key is its host key.
	Key ssh.Signer
	// NoSockets makes it forbid connections to sockets.
	NoSockets atomic.Bool
	// Most is how many more bytes it takes before it drops the line; 0 = no limit.
	Most atomic.Int64

	t    *testing.T
	ln   net.Listener
	user ssh.PublicKey

	mu    sync.Mutex
	conns []net.Conn
	n     int // of connections so far
}

// NewKey makes a key; the second form is OpenSSH's.
func NewKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// Serve starts one that knows one user's key, and is known by its own. HOME and
// the SSH agent are set so that nothing of the real user is found.
func Serve(t *testing.T) *Server {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", "")
	s := &Server{t: t, Dir: t.TempDir()}
	t.Setenv("HOME", s.Dir)
	s.Key, _ = NewKey(t)
	own, text := NewKey(t)
	s.user = own.PublicKey()
	s.Write("key", text)
	var err error
	if s.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Host = host
	if s.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	s.Trust(s.Key.PublicKey())
	t.Cleanup(func() { s.ln.Close(); s.Cut() })
	go func() {
		for {
			c, err := s.ln.Accept()
			if err != nil {
				return
			}
			go s.handle(c)
		}
	}()
	return s
}

// Write writes a file of Dir.
func (s *Server) Write(name string, text []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, name), text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Trust writes the file of known hosts.
func (s *Server) Trust(keys ...ssh.PublicKey) {
	var text string
	for _, k := range keys {
		text += knownhosts.Line([]string{s.ln.Addr().String()}, k) + "\n"
	}
	s.Write("known_hosts", []byte(text))
}

// Cut drops all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// Stop ends the listening.
func (s *Server) Stop() { s.ln.Close() }

// Connections counts those that were made so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// metered drops the line after so many bytes.
type metered struct {
	net.Conn
	s *Server
}

func (m metered) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if m.s.Most.Load() > 0 && m.s.Most.Add(-int64(n)) <= 0 {
		m.s.Most.Store(0)
		m.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *Server) handle(raw net.Conn) {
	s.mu.Lock()
	s.conns = append(s.conns, raw)
	s.n++
	s.mu.Unlock()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(s.user.Marshal()) {
			return nil, fmt.Errorf("another key")
		}
		return nil, nil
	}}
	config.AddHostKey(s.Key)
	conn, channels, requests, err := ssh.NewServerConn(metered{raw, s}, config)
	if err != nil {
		raw.Close()
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for ch := range channels {
		switch ch.ChannelType() {
		case "direct-streamlocal@openssh.com":
			s.toSocket(ch)
		case "session":
			s.session(ch)
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "")
		}
	}
}

func (s *Server) toSocket(ch ssh.NewChannel) {
	var want struct {
		Path     string
		Reserved string
		Unused   uint32
	}
	if s.NoSockets.Load() || ssh.Unmarshal(ch.ExtraData(), &want) != nil {
		_ = ch.Reject(ssh.Prohibited, "")
		return
	}
	sock, err := net.Dial("unix", want.Path)
	if err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "open failed") // all that OpenSSH says
		return
	}
	c, reqs, err := ch.Accept()
	if err != nil {
		sock.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	go func() { _, _ = io.Copy(sock, c); sock.Close() }()
	go func() { _, _ = io.Copy(c, sock); c.Close() }()
}

func (s *Server) session(ch ssh.NewChannel) {
	c, reqs, err := ch.Accept()
	if err != nil {
		return
	}
	go func() {
		for r := range reqs {
			_ = r.Reply(r.Type == "subsystem", nil)
			if r.Type == "subsystem" {
				go func() {
					if files, err := sftp.NewServer(c); err == nil {
						_ = files.Serve()
					}
					c.Close()
				}()
			}
		}
	}()
}
