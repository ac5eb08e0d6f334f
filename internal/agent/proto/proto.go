// Package proto is what lvslab and the agent inside each guest say to each
// other: the enrolment, the framing, and one typed call for each thing that an
// agent does.
//
// First contact happens on the engine port, in clear, over a socket that only
// root of the host can open. The connection that has enrolled a guest carries
// requests from then on, in clear too: it has just handed over the guest's
// private key, so a key exchange on top would protect nothing, and it costs an
// emulated guest 0.2 s of processor time. Every other connection speaks SSH, with
// requests on one channel of it (subsystem [Subsystem]).
//
// Requests travel as JSON lines, several in flight, each a batch of calls that
// the agent carries out in order: a phase of the configuration costs one round
// trip.
package proto

import (
	"encoding/json"
	"fmt"
	"time"
)

// Version is the protocol's version; both ends must have the same one. It is
// raised with every change that an older peer would misunderstand.
const Version = 2

// Subsystem is the name of the SSH subsystem that carries requests.
const Subsystem = "lvslab-rpc"

// EnginePort is the virtio-serial port of the one connection that the engine
// keeps for the whole run.
const EnginePort = "org.lvslab.engine"

// UserPorts are the ports for people's commands (exec, ssh, cp, capture). A
// port serves one client at a time, so there are four.
var UserPorts = []string{"org.lvslab.user.0", "org.lvslab.user.1", "org.lvslab.user.2", "org.lvslab.user.3"}

// Hello is the first line on any port, in both directions, before enrolment or
// SSH. The agent echoes the host's nonce; what arrives before the echo is left
// over from an earlier client and is thrown away.
type Hello struct {
	Protocol int    `json:"lvslab"`
	Nonce    string `json:"nonce"`
	// Enrolled, agent to host: the guest has its identity, SSH follows.
	Enrolled bool `json:"enrolled,omitempty"`
	// BootID, agent to host: the kernel's /proc/sys/kernel/random/boot_id, or
	// the id given at enrolment once there is one.
	BootID string `json:"boot_id,omitempty"`
}

// Enrol is the second line of the engine port when the guest is not enrolled:
// everything that makes this guest itself.
type Enrol struct {
	Node      string    `json:"node"`     // address in the topology, backend.ns[0]
	Hostname  string    `json:"hostname"` // ns-0
	HostKey   []byte    `json:"host_key"` // OpenSSH private key, PEM, ed25519
	ClientKey string    `json:"client_key"`
	Entropy   []byte    `json:"entropy"` // credited to the kernel's pool, then reseeded
	Time      time.Time `json:"time"`
	BootID    string    `json:"boot_id"` // of this clone; what settings are bound to
	// MAC is the address of the guest's first card, for a clone whose card still
	// has [TemplateMAC].
	MAC string `json:"mac,omitempty"`
}

// Enrolled is the agent's answer to Enrol. Without an error requests follow.
type Enrolled struct {
	Agent  string  `json:"agent"`  // version of lvslab that built the agent
	Kernel string  `json:"kernel"` // uname -r
	Uptime float64 `json:"uptime"` // seconds since the guest's boot
	Error  string  `json:"error,omitempty"`
}

// Request is one line from the host.
type Request struct {
	ID    uint64     `json:"id"` // from 1
	Calls []Envelope `json:"calls"`
	// DeadlineMS bounds the whole batch in the guest, milliseconds; 0 = none.
	DeadlineMS int64 `json:"deadline_ms,omitempty"`
	// Cancel ends the request with that ID instead of starting one.
	Cancel uint64 `json:"cancel,omitempty"`
}

// Envelope is one call of a batch.
type Envelope struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Reply answers a request. Results are as many as the calls that were begun: a
// batch ends at its first error.
type Reply struct {
	ID      uint64   `json:"id"`
	Results []Result `json:"results"`
}

// Result is the outcome of one call.
type Result struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *Error          `json:"error,omitempty"`
}

// Error codes that callers tell apart with errors.As on *[Error].
const (
	CodeNotFound    = "not-found"   // the thing named does not exist
	CodeUnsupported = "unsupported" // the guest's kernel or tools lack it; Subject names what
	CodeTimeout     = "timeout"     // a condition did not come true in time
	CodeMismatch    = "mismatch"    // written, but read back differently
	CodeInvalid     = "invalid"     // arguments that can't be right
	CodeFailed      = "failed"      // anything else
)

// Error is an error from inside a guest.
type Error struct {
	Code    string `json:"code"`
	Op      string `json:"op,omitempty"`
	Subject string `json:"subject,omitempty"` // the device, module, zone, service …
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if e.Subject != "" {
		return fmt.Sprintf("%s %s: %s", e.Op, e.Subject, e.Message)
	}
	return e.Op + ": " + e.Message
}

// Call ties an operation's name to the types of its arguments and its result.
type Call[A, R any] struct{ Op string }

// None is the argument or the result of calls that have none.
type None struct{}
