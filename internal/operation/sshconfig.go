package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/topo"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/schema"
)

// The files of a lab's OpenSSH configuration, in the lab's directory.
const (
	sshDir        = "ssh"
	sshIdentity   = "identity"
	sshKnownHosts = "known_hosts"
	sshConfigFile = "config"
)

// SSHConfig writes what OpenSSH's programs need to reach the machines of a lab
// that is up, and prints the configuration: ssh -F, scp -F and Ansible work with
// it. The machines are not on any network of the host's, so each connection goes
// through "lvslab ssh-proxy". The lab's private key is among the files, readable
// by its owner only; they go with the lab's directory.
func SSHConfig(ctx context.Context, s *Settings, ref string, out io.Writer) (Exit, error) {
	l, err := s.findLab(ctx, ref)
	if err != nil {
		return ExitError, err
	}
	order, by := l.machines()
	if len(order) == 0 {
		return ExitError, l.noSuchNode("", order)
	}
	self, err := os.Executable()
	if err != nil {
		return ExitError, err
	}
	keys, err := openKeys(l.dir, nil)
	if err != nil {
		return ExitError, err
	}
	own, err := keys.client()
	if err != nil {
		return ExitError, err
	}
	dir, err := filepath.Abs(filepath.Join(l.dir, sshDir))
	if err != nil {
		return ExitError, err
	}
	c := sshConfig{dir: dir, self: self, name: l.state.Lab}
	names := topo.HostNames(order)
	for _, n := range order {
		if err := c.add(n, names[n], by[n], keys); err != nil {
			return ExitError, err
		}
	}
	if err := c.write(own.Private); err != nil {
		return ExitError, err
	}
	_, err = io.WriteString(out, c.text())
	return ExitDone, err
}

// sshConfig collects the entries of one lab.
type sshConfig struct {
	dir, self, name string
	hosts, known    strings.Builder
}

func (c *sshConfig) add(n addr.Noun, alias string, r state.Resource, keys *keyring) error {
	v, err := r.Value(schema.DomainSchema)
	if err != nil {
		return err
	}
	d, err := schema.DomainFrom(v)
	if err != nil {
		return err
	}
	host, err := keys.host(d.Address)
	if err != nil {
		return err
	}
	// HostKeyAlias: both names, and every lab's machine of that name, would else
	// need entries of their own in known_hosts.
	known := c.name + "." + alias
	fmt.Fprintf(&c.known, "%s %s\n", known, strings.TrimSpace(host.Public))
	path := func(name string) string { return sshPath(filepath.Join(c.dir, name)) }
	fmt.Fprintf(&c.hosts, "\nHost %s %s\n  HostKeyAlias %s\n  User root\n  ProxyCommand %s ssh-proxy --lab %s %s\n", alias, sshName(n.String()), known,
		sshQuote(c.self), sshQuote(filepath.Dir(c.dir)), sshQuote(n.String()))
	fmt.Fprintf(&c.hosts, "  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n  CanonicalizeHostname no\n",
		path(sshIdentity), path(sshKnownHosts))
	return nil
}

// text is the configuration. Hosts that are not the lab's are left alone, so that
// a user's own can include it.
func (c *sshConfig) text() string {
	return fmt.Sprintf("# The machines of lab %s: ssh -F %s HOST\n", c.name, filepath.Join(c.dir, sshConfigFile)) + c.hosts.String()
}

// write puts the files where the configuration says that they are, each whole.
func (c *sshConfig) write(identity []byte) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{sshIdentity: string(identity), sshKnownHosts: c.known.String(), sshConfigFile: c.text()} {
		if err := replaceFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sshQuote quotes a word of a ProxyCommand, which OpenSSH hands to the user's
// shell after its own %-sequences (ssh_config(5), TOKENS).
func sshQuote(word string) string { return client.Quote([]string{strings.ReplaceAll(word, "%", "%%")}) }

// sshPath quotes a file name in a configuration, where % and quotes have a meaning.
func sshPath(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }

// sshName is a machine's address as the name of a host, without the quotes of its key:
// OpenSSH refuses a host with quotes (valid_hostname in ssh.c, 9.6 and Debian 12's), and
// in a pattern they would end its own.
func sshName(address string) string { return strings.ReplaceAll(address, `"`, "") }

// SSHProxy joins standard input and output to a node's SSH server.
func SSHProxy(ctx context.Context, s *Settings, ref, node string, in io.Reader, out io.Writer) (Exit, error) {
	l, err := s.findLab(ctx, ref)
	if err != nil {
		return ExitError, err
	}
	d, err := l.machine(node)
	if err != nil {
		return ExitError, err
	}
	line, err := l.claimLine(ctx, node, d, "lvslab ssh-proxy "+node)
	if err != nil {
		return ExitError, err
	}
	defer line.release()
	if err := client.Pipe(ctx, line.spec, in, out); err != nil {
		if errors.Is(err, client.ErrLost) {
			err = diag.Fail(diag.Told(err), "The connection to "+node+" was lost",
				"Look with 'lvslab show' whether the lab is up, and at 'lvslab logs "+quoteNode(node)+"'.", "the line to the guest broke")
		}
		return ExitError, notSetUp(node, err)
	}
	return ExitDone, nil
}
