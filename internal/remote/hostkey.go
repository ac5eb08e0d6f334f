package remote

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/lvslab/lvslab/internal/diag"
)

// trust decides about the key that a host shows.
type trust struct {
	spec  Spec
	files []string // that are there, in the order in which they are asked
	write string   // where a new key belongs
	known ssh.HostKeyCallback
	// algorithms are those of the keys that are known for the host: one for which
	// there is no key must not be chosen. Empty = nothing is known.
	algorithms []string
	// refusal is why check has refused; x/crypto hands on only its text.
	refusal error
}

// machineKnownHosts is OpenSSH's default GlobalKnownHostsFile (ssh_config(5)).
const machineKnownHosts = "/etc/ssh/ssh_known_hosts"

// trusted reads the files of known hosts.
func trusted(spec Spec) (*trust, error) {
	t := &trust{spec: spec}
	candidates := []string{spec.KnownHosts}
	if spec.KnownHosts == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("known hosts: %w", err)
		}
		candidates = []string{filepath.Join(home, ".ssh", "known_hosts"), machineKnownHosts}
	}
	t.write = candidates[0]
	for _, path := range candidates {
		switch _, err := os.Stat(path); {
		case err == nil:
			t.files = append(t.files, path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, unreadable(path, err)
		}
	}
	var err error
	if t.known, err = knownhosts.New(t.files...); err != nil {
		return nil, unreadable(strings.Join(t.files, ", "), err)
	}
	t.algorithms = t.algorithmsOf(t.wanted())
	return t, nil
}

func unreadable(path string, err error) error {
	return diag.Fail(err, "The file of known hosts cannot be read", "Mend the line that is named, or name another file: ?known_hosts=PATH.", "%s", path)
}

// wanted asks for a key that nobody has: the refusal lists those that are known.
func (t *trust) wanted() []knownhosts.KnownKey {
	nobody, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil
	}
	var unknown *knownhosts.KeyError
	if errors.As(t.known(t.spec.address(), noAddress{}, nobody), &unknown) {
		return unknown.Want
	}
	return nil
}

// algorithmsOf names the signatures that each key can make.
func (t *trust) algorithmsOf(keys []knownhosts.KnownKey) []string {
	var list []string
	for _, k := range keys {
		if name := k.Key.Type(); name == ssh.KeyAlgoRSA {
			list = append(list, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			list = append(list, name)
		}
	}
	return list
}

// noAddress stands for the address of a host that is known by its name alone:
// what is behind a name may move.
type noAddress struct{}

func (noAddress) Network() string { return "tcp" }
func (noAddress) String() string  { return "0.0.0.0:0" }

// check is the ssh.HostKeyCallback.
func (t *trust) check(address string, _ net.Addr, key ssh.PublicKey) error {
	err := t.known(address, noAddress{}, key)
	if err == nil {
		return nil
	}
	t.refusal = t.explain(key, err)
	return t.refusal
}

func (t *trust) explain(key ssh.PublicKey, err error) error {
	name := knownhosts.Normalize(t.spec.address())
	shows := fmt.Sprintf("%s shows the %s key %s", t.spec, key.Type(), ssh.FingerprintSHA256(key))
	var revoked *knownhosts.RevokedError
	var other *knownhosts.KeyError
	switch {
	case errors.As(err, &revoked):
		return diag.Fail(err, "The host's key is revoked", "Do not use this host until it has another key.",
			"%s, which %s:%d revokes", shows, revoked.Revoked.Filename, revoked.Revoked.Line)
	case errors.As(err, &other) && len(other.Want) > 0:
		at := other.Want[0]
		return diag.Fail(diag.Told(err), "The host's key has changed",
			fmt.Sprintf("Somebody may stand between you and the host. If you know that it has a new key, remove the old one with: ssh-keygen -R '%s' -f %s, and add the new one.", name, at.Filename),
			"%s, and %s:%d has another one: %s", shows, at.Filename, at.Line, ssh.FingerprintSHA256(at.Key))
	case errors.As(err, &other):
		return diag.Fail(diag.Told(err), "The host's key is not known",
			fmt.Sprintf("Compare it with the one that the host has (there: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then add it to %s; 'ssh %s' asks for that, too.",
				t.write, sshArguments(t.spec, userOr(t.spec))),
			"%s, and no line for %s is in %s", shows, name, t.asked())
	}
	return diag.Fail(err, "The host's key cannot be checked", "Mend the file of known hosts.", "%s", shows)
}

// asked lists the files that were looked into.
func (t *trust) asked() string {
	if len(t.files) == 0 {
		return t.write + ", which does not exist"
	}
	return strings.Join(t.files, " and ")
}

func userOr(s Spec) string {
	if s.User == "" {
		return "USER"
	}
	return s.User
}
