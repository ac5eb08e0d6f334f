package server

import "golang.org/x/crypto/ssh"

// identity is what an enrolment has made of the guest.
type identity struct {
	node    string
	bootID  string
	hostKey ssh.Signer
	client  ssh.PublicKey
}
