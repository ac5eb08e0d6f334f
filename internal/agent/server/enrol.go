package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// identity is what an enrolment has made of the guest.
type identity struct {
	node    string
	bootID  string
	hostKey ssh.Signer
	client  ssh.PublicKey
}

// sshBanner begins each side's first line of SSH (RFC 4253, section 4.2).
var sshBanner = []byte("SSH-")

// greeting is how a first contact ended.
type greeting struct {
	id *identity
	// enrolled: this very contact gave the guest its identity, and requests follow
	// in clear. Otherwise SSH follows.
	enrolled bool
}

// greet speaks the first contact on a port until SSH begins or the guest has got
// its identity. A host that got no answer asks again, so a Hello may come at any
// time before the banner; what is no line of ours is left over from an earlier
// visit and is thrown away.
func (s *Server) greet(port string, r *bufio.Reader, w io.Writer) (greeting, error) {
	greeted := false
	for {
		head, err := r.Peek(len(sshBanner))
		if err != nil {
			return greeting{}, err
		}
		if id := s.identity(); id != nil && greeted && bytes.Equal(head, sshBanner) {
			return greeting{id: id}, nil
		}
		line, err := proto.ReadLine(r)
		if err != nil {
			return greeting{}, err
		}
		if h, ok := proto.ParseHello(line); ok {
			greeted = true
			if err := proto.WriteLine(w, s.hello(h.Nonce)); err != nil {
				return greeting{}, err
			}
			continue
		}
		if p, ok := proto.ParsePrepare(line); ok && greeted && port == proto.EnginePort {
			if err := proto.WriteLine(w, s.prepare(p)); err != nil {
				return greeting{}, err
			}
		}
		if e, ok := proto.ParseEnrol(line); ok && greeted && port == proto.EnginePort {
			answer := s.enrol(e)
			if err := proto.WriteLine(w, answer); err != nil {
				return greeting{}, err
			}
			if answer.Error == "" {
				return greeting{id: s.identity(), enrolled: true}, nil
			}
		}
	}
}

func (s *Server) identity() *identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (s *Server) hello(nonce string) proto.Hello {
	h := proto.Hello{Protocol: proto.Version, Nonce: nonce}
	if id := s.identity(); id != nil {
		h.Enrolled, h.BootID = true, id.bootID
	}
	return h
}

// enrol takes an identity once. Repeating the same one is answered alike: the
// host may not have seen the first answer.
func (s *Server) enrol(e proto.Enrol) proto.Enrolled {
	answer := proto.Enrolled{Agent: s.version, Kernel: kernelRelease(), Uptime: uptime()}
	if err := s.takeIdentity(e); err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (s *Server) takeIdentity(e proto.Enrol) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != nil {
		if s.id.bootID == e.BootID {
			return nil
		}
		return fmt.Errorf("already enrolled as %s", s.id.node)
	}
	// The seed comes first: whatever draws random numbers afterwards, TLS-like
	// key exchange above all, must not draw what another clone of this boot drew.
	if s.seed != nil {
		if err := s.seed(e); err != nil {
			return err
		}
	}
	host, err := ssh.ParsePrivateKey(e.HostKey)
	if err != nil {
		return fmt.Errorf("host key: %w", err)
	}
	client, _, _, _, err := ssh.ParseAuthorizedKey([]byte(e.ClientKey))
	if err != nil {
		return fmt.Errorf("client key: %w", err)
	}
	if e.BootID == "" {
		return errors.New("no boot id given")
	}
	s.id = &identity{node: e.Node, bootID: e.BootID, hostKey: host, client: client}
	s.log(fmt.Sprintf("enrolled as %s, %.2f s after boot", e.Node, uptime()))
	return nil
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// uptime is the time since the kernel's start, seconds.
func uptime() float64 {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}
