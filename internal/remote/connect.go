package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/lvslab/lvslab/internal/diag"
)

// connect makes a connection: TCP, the host's key, ours.
func connect(ctx context.Context, spec Spec) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	name := spec.User
	if name == "" {
		who, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("%w: the user's name: %w", ErrLost, err)
		}
		name = who.Username
	}
	trust, err := trusted(spec)
	if err != nil {
		return nil, err
	}
	keys, err := identities(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer keys.close()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", spec.address())
	if err != nil {
		return nil, diag.Fail(fmt.Errorf("%w: %w", ErrLost, err), "The host of the hypervisor cannot be reached",
			"Try: ssh "+sshArguments(spec, name)+" true", "No connection to %s", spec)
	}
	// The handshake knows no context.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	conn, channels, requests, err := ssh.NewClientConn(raw, spec.address(), &ssh.ClientConfig{
		User: name, Auth: keys.methods(), ClientVersion: "SSH-2.0-lvslab",
		HostKeyCallback: trust.check, HostKeyAlgorithms: trust.algorithms,
	})
	if err != nil {
		raw.Close()
		return nil, refused(ctx, spec, name, trust, keys, err)
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// refused says why a handshake failed.
func refused(ctx context.Context, spec Spec, name string, trust *trust, keys *identity, err error) error {
	var known *diag.Failure
	switch {
	case trust.refusal != nil:
		return trust.refusal
	case errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return diag.Fail(fmt.Errorf("%w: %w", ErrLost, ctx.Err()), "The host of the hypervisor does not answer",
			"Try: ssh "+sshArguments(spec, name)+" true", "%s took the connection and said nothing for %s", spec, connectTimeout)
	case strings.Contains(err.Error(), "unable to authenticate"): // x/crypto has no typed error for it
		return diag.Fail(fmt.Errorf("%w: %w", ErrLost, err), "The host of the hypervisor lets nobody in with these keys",
			"Add a public key to ~/.ssh/authorized_keys of "+name+" there, or name another private key: ?keyfile=PATH.",
			"%s was shown %s", spec, keys.told())
	}
	return diag.Fail(fmt.Errorf("%w: %w", ErrLost, err), "No SSH connection to the host of the hypervisor",
		"Try: ssh "+sshArguments(spec, name)+" true", "%s", spec)
}

// sshArguments are those of ssh(1) for the same connection.
func sshArguments(spec Spec, name string) string {
	var b strings.Builder
	if spec.Port != 0 && spec.Port != 22 {
		fmt.Fprintf(&b, "-p %d ", spec.Port)
	}
	if spec.KeyFile != "" {
		fmt.Fprintf(&b, "-i %s ", spec.KeyFile)
	}
	if spec.KnownHosts != "" {
		fmt.Fprintf(&b, "-o UserKnownHostsFile=%s ", spec.KnownHosts)
	}
	return b.String() + name + "@" + spec.Host
}
