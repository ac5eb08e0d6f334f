package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

// ErrNotEnrolled is wrapped by Dial when the guest has no identity yet and the
// spec has none to give: somebody must dial the engine port first.
var ErrNotEnrolled = errors.New("the guest is not enrolled yet")

// DialSpec says how to reach a guest and who it must be.
type DialSpec struct {
	// Node is the machine's address, backend.ns[0]; for messages and enrolment.
	Node string
	// Open connects to the port. It is called again when the guest's side is not
	// there yet, so an error of it is only final when ctx ends, or when it is a
	// [*diag.Failure]: the machine is known to be gone.
	Open func(ctx context.Context) (net.Conn, error)
	// ClientKey is the lab's private key, PEM.
	ClientKey []byte
	// HostKey is the machine's public key, authorized_keys form: no other is accepted.
	HostKey string
	// Enrol is the identity for a guest that has none; nil on user ports. Node,
	// Time, Entropy, ClientKey and BootID are filled in when empty.
	Enrol *proto.Enrol
}

// helloFirst is after how long a Hello without an answer is repeated; the pause
// doubles up to helloMost. The first one can be lost: a guest whose last visitor
// has just left may take it for data of that visit. Under emulation an answer
// takes about 5 ms.
const (
	helloFirst = 25 * time.Millisecond
	helloMost  = 2 * time.Second
)

// firstAnswer is how long a guest that is up may take for its Hello: milliseconds
// when idle, seconds while its emulated processor is busy with a run.
const firstAnswer = 20 * time.Second

// reopenEvery is the pause before a port that could not be opened, or was
// closed by the other side, is tried again: QEMU makes the socket at its start.
const reopenEvery = 20 * time.Millisecond

// Dial makes first contact and enrols the guest when it has no identity; it
// opens SSH with the request channel when it has one. It tries until ctx ends, so that it may be
// called as soon as the machine has been created; what can't get better by
// waiting (another protocol version, a wrong key) ends it at once.
func Dial(ctx context.Context, spec DialSpec) (*Conn, error) {
	var last error
	for {
		raw, err := spec.Open(ctx)
		if err == nil {
			var c *Conn
			if c, err = establish(ctx, spec, raw); err == nil {
				return c, nil
			}
			raw.Close()
		}
		var final *diag.Failure
		if errors.As(err, &final) || errors.Is(err, ErrNotEnrolled) {
			return nil, err
		}
		// The context's end shows as a broken connection; the error before that says more.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, unreachable(ctx, spec.Node, last)
		case <-time.After(reopenEvery):
		}
	}
}

func unreachable(ctx context.Context, node string, last error) error {
	return diag.Fail(fmt.Errorf("%w (%w)", context.Cause(ctx), last), "No contact with the agent of "+node,
		"Look at the machine's console with `lvslab logs "+node+"`.",
		"the guest did not answer on its serial port in time")
}

func establish(ctx context.Context, spec DialSpec, raw net.Conn) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	r := bufio.NewReaderSize(raw, 32<<10)
	hello, err := greet(raw, r)
	if err != nil {
		return nil, err
	}
	if hello.Protocol != proto.Version {
		return nil, otherProtocol(spec.Node, hello.Protocol)
	}
	c := &Conn{node: spec.Node, bootID: hello.BootID}
	if !hello.Enrolled {
		if spec.Enrol == nil {
			return nil, fmt.Errorf("%s: %w", spec.Node, ErrNotEnrolled)
		}
		if c.enrolled, c.bootID, err = enrol(spec, raw, r); err != nil {
			return nil, err
		}
		c.line = raw
		c.rpc = newRPC(&bufferedConn{Conn: raw, r: r, begun: true})
	} else if err := c.openSSH(spec, raw, r); err != nil {
		return nil, err
	}
	if !stop() {
		c.Close()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

func otherProtocol(node string, theirs int) error {
	return diag.Fail(nil, "The agent of "+node+" speaks another protocol",
		"Take the lab down with `lvslab destroy` and apply it again with this lvslab.",
		"the guest speaks version %d, this lvslab version %d", theirs, proto.Version)
}

// greet sends a Hello until its nonce comes back.
func greet(w io.Writer, r *bufio.Reader) (proto.Hello, error) {
	ask := proto.Hello{Protocol: proto.Version, Nonce: nonce()}
	if err := proto.WriteLine(w, ask); err != nil {
		return proto.Hello{}, err
	}
	// The repeater must have ended before anything else is written: a Hello in the
	// middle of the SSH stream would break it.
	var repeater sync.WaitGroup
	defer repeater.Wait()
	answered := make(chan struct{})
	defer close(answered)
	repeater.Go(func() {
		for pause := helloFirst; ; pause = min(2*pause, helloMost) {
			select {
			case <-answered:
				return
			case <-time.After(pause):
				if proto.WriteLine(w, ask) != nil {
					return
				}
			}
		}
	})
	for {
		line, err := proto.ReadLine(r)
		if err != nil {
			return proto.Hello{}, err
		}
		if h, ok := proto.ParseHello(line); ok && h.Nonce == ask.Nonce {
			return h, nil
		}
	}
}

func enrol(spec DialSpec, w io.Writer, r *bufio.Reader) (*proto.Enrolled, string, error) {
	e := *spec.Enrol
	if err := complete(&e, spec); err != nil {
		return nil, "", err
	}
	if err := proto.WriteLine(w, e); err != nil {
		return nil, "", err
	}
	for {
		line, err := proto.ReadLine(r)
		if err != nil {
			return nil, "", err
		}
		answer, ok := proto.ParseEnrolled(line)
		switch {
		case !ok: // a repeated Hello
		case answer.Error != "":
			return nil, "", diag.Fail(nil, "The agent of "+spec.Node+" refused its identity",
				"Take the lab down with `lvslab destroy` and apply it again.", "%s", answer.Error)
		default:
			return &answer, e.BootID, nil
		}
	}
}

// entropyBytes is what a guest is given: twice what the kernel's generator needs.
const entropyBytes = 64

func complete(e *proto.Enrol, spec DialSpec) error {
	if e.Node == "" {
		e.Node = spec.Node
	}
	if e.ClientKey == "" {
		public, err := PublicOf(spec.ClientKey)
		if err != nil {
			return err
		}
		e.ClientKey = public
	}
	if len(e.Entropy) == 0 {
		e.Entropy = make([]byte, entropyBytes)
		_, _ = rand.Read(e.Entropy) // never fails, crypto/rand says
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.BootID == "" {
		e.BootID = uuid.NewString()
	}
	return nil
}

// openSSH authenticates both sides and opens the request channel.
func (c *Conn) openSSH(spec DialSpec, raw net.Conn, r *bufio.Reader) error {
	config, err := sshConfig(spec)
	if err != nil {
		return err
	}
	conn, channels, requests, err := ssh.NewClientConn(&bufferedConn{Conn: raw, r: r}, spec.Node, config)
	if err != nil && strings.Contains(err.Error(), "unable to authenticate") { // x/crypto has no typed error for it
		return diag.Fail(err, "The guest "+spec.Node+" does not accept this lab's key",
			"Use the state directory that the lab was applied with, or destroy the lab and apply it again.",
			"the guest was enrolled with another client key")
	}
	if err != nil {
		return fmt.Errorf("%s: SSH: %w", spec.Node, err)
	}
	c.ssh = ssh.NewClient(conn, channels, requests)
	c.line = c.ssh
	ch, reqs, err := c.ssh.OpenChannel("session", nil)
	if err != nil {
		c.ssh.Close()
		return fmt.Errorf("%s: request channel: %w", spec.Node, err)
	}
	go ssh.DiscardRequests(reqs)
	ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{proto.Subsystem}))
	if err == nil && !ok {
		err = errors.New("refused")
	}
	if err != nil {
		c.ssh.Close()
		return fmt.Errorf("%s: subsystem %s: %w", spec.Node, proto.Subsystem, err)
	}
	c.rpc = newRPC(ch)
	return nil
}

// sshConfig pins the machine's key. The line is a socket that only this host's
// root can open, so the algorithms are the ones that cost an emulated guest least.
func sshConfig(spec DialSpec) (*ssh.ClientConfig, error) {
	signer, err := ssh.ParsePrivateKey(spec.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("client key: %w", err)
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(spec.HostKey))
	if err != nil {
		return nil, fmt.Errorf("host key of %s: %w", spec.Node, err)
	}
	pinned := func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if bytes.Equal(key.Marshal(), host.Marshal()) {
			return nil
		}
		return diag.Fail(nil, "The guest on the line is not "+spec.Node,
			"Take the lab down with `lvslab destroy` and apply it again.",
			"it shows host key %s, expected %s", ssh.FingerprintSHA256(key), ssh.FingerprintSHA256(host))
	}
	return &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305},
		},
		User:              "root",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   pinned,
		HostKeyAlgorithms: []string{host.Type()},
		ClientVersion:     "SSH-2.0-lvslab",
	}, nil
}

// skipToBanner throws away answers to repeated Hellos.
func skipToBanner(r *bufio.Reader) error {
	for {
		head, err := r.Peek(4)
		if err != nil {
			return err
		}
		if string(head) == "SSH-" {
			return nil
		}
		if _, err := proto.ReadLine(r); err != nil {
			return err
		}
	}
}

// bufferedConn reads through the buffer that the first contact has read from,
// beginning with the other side's banner. The guest sends that only after it
// has seen ours, so the skipping can't be done before SSH starts.
type bufferedConn struct {
	net.Conn
	r     *bufio.Reader
	begun bool
}

func (c *bufferedConn) Read(b []byte) (int, error) {
	if !c.begun {
		if err := skipToBanner(c.r); err != nil {
			return 0, err
		}
		c.begun = true
	}
	return c.r.Read(b)
}
