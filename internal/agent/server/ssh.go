package server

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"golang.org/x/crypto/ssh"
)

var errWrongKey = errors.New("not the client key of this lab")

// serveSSH speaks SSH on a greeted connection until it ends. When it returns,
// every process that its sessions had started has been killed.
func (s *Server) serveSSH(ctx context.Context, id *identity, c *streamConn) error {
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-lvslab",
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), id.client.Marshal()) {
				return nil, errWrongKey
			}
			return nil, nil
		},
	}
	config.AddHostKey(id.hostKey)
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer cancel()
	defer conn.Close()
	go answerKeepalives(requests)
	for open := range channels {
		if open.ChannelType() != "session" {
			_ = open.Reject(ssh.UnknownChannelType, "only sessions are served")
			continue
		}
		ch, reqs, err := open.Accept()
		if err != nil {
			return err
		}
		sessions.Go(func() { s.session(ctx, ch, reqs) })
	}
	return conn.Wait()
}

// answerKeepalives answers global requests with a failure, which is what a
// client that asks "are you alive" wants to see.
func answerKeepalives(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}
