package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// rehearse does once, in a template, what each clone does first: it takes an
// identity and answers a request. So the agent's pages are mapped and its tables
// are computed when the template is saved; without it the first contact with a
// clone takes longer under emulation. The keys are thrown away, nothing of it
// leaves this process, no socket but one of netlink is opened, and what is asked
// for changes nothing.
func (s *Server) rehearse(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	twin := New(ctx, Options{Version: s.version})
	host, err := throwawayKey()
	if err != nil {
		return err
	}
	own, err := throwawayKey()
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(own)
	if err != nil {
		return err
	}
	e := proto.Enrol{Node: "rehearsal", BootID: "rehearsal", HostKey: host, ClientKey: string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}
	if answer := twin.enrol(e); answer.Error != "" {
		return errors.New(answer.Error)
	}
	if _, err := dump(netlink.LinkList); err != nil {
		return err
	}
	near, far := net.Pipe()
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	served := make(chan error, 1)
	go func() { served <- twin.serveRPC(ctx, far) }()
	err = askTwin(near)
	near.Close()
	far.Close()
	<-served
	return err
}

func throwawayKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// askTwin is the host's part of the rehearsal.
func askTwin(line net.Conn) error {
	var calls []proto.Envelope
	for op, args := range map[string]any{
		proto.LinkApply.Op:  proto.LinkSpec{Name: loopback},
		proto.NetemRead.Op:  proto.LinkRef{Name: loopback},
		proto.SysctlRead.Op: []string{"net.ipv4.ip_forward"},
	} {
		text, err := json.Marshal(args)
		if err != nil {
			return err
		}
		calls = append(calls, proto.Envelope{Op: op, Args: text})
	}
	if err := json.NewEncoder(line).Encode(proto.Request{ID: 1, Calls: calls}); err != nil {
		return err
	}
	var reply proto.Reply
	if err := json.NewDecoder(line).Decode(&reply); err != nil {
		return err
	}
	if len(reply.Results) != len(calls) {
		return fmt.Errorf("%d answers to %d calls", len(reply.Results), len(calls))
	}
	for _, r := range reply.Results {
		if r.Error != nil {
			return r.Error
		}
	}
	return nil
}
