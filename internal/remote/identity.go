package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/lvslab/lvslab/internal/diag"
)

// usualKeys are the files in ~/.ssh that are tried, as ssh(1) does.
var usualKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// identity is what we can show to a host.
type identity struct {
	signers []ssh.Signer
	from    []string // where they are from, for messages
	agent   net.Conn // nil = none
}

// identities collects the keys: the one that was named, or the agent's and the
// usual files'. A file with a passphrase is the agent's business.
func identities(ctx context.Context, spec Spec) (*identity, error) {
	id := &identity{}
	if spec.KeyFile != "" {
		return id, id.addFile(spec.KeyFile, true)
	}
	if err := id.addAgent(ctx); err != nil {
		id.close()
		return nil, err
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, name := range usualKeys {
			if err := id.addFile(filepath.Join(home, ".ssh", name), false); err != nil {
				id.close()
				return nil, err
			}
		}
	}
	if len(id.signers) == 0 {
		id.close()
		return nil, diag.Fail(ErrLost, "There is no SSH key", "Make one with ssh-keygen, load one with ssh-add, or name one: ?keyfile=PATH.",
			"To be shown to %s; neither an SSH agent nor a file in ~/.ssh has one without a passphrase", spec)
	}
	return id, nil
}

func (id *identity) addAgent(ctx context.Context) error {
	path := os.Getenv("SSH_AUTH_SOCK")
	if path == "" {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil // a leftover in the environment; the files may do
	}
	id.agent = conn
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return fmt.Errorf("%w: ask the SSH agent at %s: %w", ErrLost, path, err)
	}
	if len(signers) > 0 {
		id.signers = append(id.signers, signers...)
		id.from = append(id.from, fmt.Sprintf("%d of the SSH agent", len(signers)))
	}
	return nil
}

func (id *identity) addFile(path string, named bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		if !named && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return diag.Fail(err, "The SSH key cannot be read", "Name a private key that this user may read: ?keyfile=PATH.", "%s", path)
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked) && !named:
		return nil
	case errors.As(err, &locked):
		return diag.Fail(err, "The SSH key has a passphrase", "Load it with ssh-add and leave keyfile out, or name one without a passphrase.", "%s", path)
	case err != nil:
		return diag.Fail(err, "The SSH key cannot be read", "Name a private key in OpenSSH's or PEM form: ?keyfile=PATH.", "%s", path)
	}
	id.signers, id.from = append(id.signers, signer), append(id.from, path)
	return nil
}

func (id *identity) methods() []ssh.AuthMethod {
	return []ssh.AuthMethod{ssh.PublicKeys(id.signers...)}
}

// told lists the keys for people.
func (id *identity) told() string { return "the keys: " + strings.Join(id.from, ", ") }

func (id *identity) close() {
	if id.agent != nil {
		id.agent.Close()
	}
}
