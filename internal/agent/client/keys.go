package client

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Key is an ed25519 key pair: one for each lab (the client's) and one for each
// machine (its host key).
type Key struct {
	Private []byte // OpenSSH private key, PEM
	Public  string // as in authorized_keys, without comment
}

// NewKey draws a key pair. The comment ends up in the private key's file only.
func NewKey(comment string) (Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, err
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return Key{}, err
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return Key{}, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshPublic)))
	return Key{Private: pem.EncodeToMemory(block), Public: line}, nil
}

// PublicOf returns the public half of a private key in PEM form.
func PublicOf(private []byte) (string, error) {
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return "", fmt.Errorf("private key: %w", err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), nil
}

// Fingerprint returns the public key's SHA-256 as ssh prints it: "SHA256:…".
func (k Key) Fingerprint() (string, error) {
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(k.Public))
	if err != nil {
		return "", fmt.Errorf("public key: %w", err)
	}
	return ssh.FingerprintSHA256(public), nil
}

// nonce is unguessable enough never to be left over from an earlier visit.
func nonce() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails, crypto/rand says
	return hex.EncodeToString(b)
}
