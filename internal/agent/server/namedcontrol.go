package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// namedControlAt is where named listens for commands: on loopback only.
const namedControlAt = "127.0.0.1:953"

// controlKey authenticates commands; new for each agent.
type controlKey [sha256.Size]byte

func newControlKey() (k controlKey) {
	_, _ = rand.Read(k[:]) // never fails, crypto/rand says
	return k
}

func (k controlKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// controlField is one entry of a message of the control channel: a text, or a
// table of entries when the text is nil. Their order counts for the signature.
type controlField struct {
	name  string
	text  []byte
	table []controlField
}

func text(name, value string) controlField { return controlField{name: name, text: []byte(value)} }

// Types of values, and the number of HMAC-SHA256 (doc/dev/rndc.md and
// lib/isccc/include/isccc/types.h of BIND 9.18).
const (
	controlText   = 1
	controlTable  = 2
	controlSHA256 = 163
	// signatureSize is the room for a signature in base64, filled up with zeros.
	signatureSize = 88
)

// maxControl bounds an answer, bytes: those to the commands used are short.
const maxControl = 64 << 10

var (
	errControl = errors.New("unreadable answer on named's control channel")
	errRefused = errors.New("named refuses")
)

// controlCommand has named carry out one command of rndc(8) and returns what it
// says. Its refusal is an error with its own words.
func controlCommand(ctx context.Context, at string, key controlKey, command string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	// The first answer holds the nonce that the real command must bring.
	first, err := exchange(c, key, "null", "")
	if err != nil {
		return "", err
	}
	answer, err := exchange(c, key, command, string(find(first, "_ctrl", "_nonce")))
	if err != nil {
		return "", err
	}
	said := string(find(answer, "_data", "text"))
	if refused := find(answer, "_data", "err"); refused != nil {
		return said, fmt.Errorf("%w: %s", errRefused, refused)
	}
	return said, nil
}

func exchange(c io.ReadWriter, key controlKey, command, nonce string) ([]controlField, error) {
	if _, err := c.Write(controlMessage(key, command, nonce, time.Now())); err != nil {
		return nil, err
	}
	var head [8]byte // length of the rest, version
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	n, version := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if n < 4 || n > maxControl || version != 1 {
		return nil, fmt.Errorf("%w: %d bytes of version %d", errControl, n, version)
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	return parseControl(body)
}

// controlMessage is a signed request, framed. named takes it up to a minute
// later by the guest's clock, and once.
func controlMessage(key controlKey, command, nonce string, now time.Time) []byte {
	var serial [4]byte
	_, _ = rand.Read(serial[:])
	control := []controlField{
		text("_ser", strconv.FormatUint(uint64(binary.BigEndian.Uint32(serial[:])), 10)),
		text("_tim", strconv.FormatInt(now.Unix(), 10)),
		text("_exp", strconv.FormatInt(now.Add(time.Minute).Unix(), 10)),
	}
	if nonce != "" {
		control = append(control, text("_nonce", nonce))
	}
	signed := appendControl(nil, []controlField{
		{name: "_ctrl", table: control},
		{name: "_data", table: []controlField{text("type", command)}},
	})
	mac := hmac.New(sha256.New, key[:])
	mac.Write(signed)
	signature := make([]byte, 1+signatureSize)
	signature[0] = controlSHA256
	base64.StdEncoding.Encode(signature[1:], mac.Sum(nil))
	auth := appendControl(nil, []controlField{{name: "_auth", table: []controlField{{name: "hsha", text: signature}}}})
	message := binary.BigEndian.AppendUint32(nil, uint32(4+len(auth)+len(signed)))
	message = binary.BigEndian.AppendUint32(message, 1)
	return append(append(message, auth...), signed...)
}

func appendControl(b []byte, fields []controlField) []byte {
	for _, f := range fields {
		kind, value := byte(controlText), f.text
		if f.text == nil {
			kind, value = controlTable, appendControl(nil, f.table)
		}
		b = append(append(b, byte(len(f.name))), f.name...)
		b = binary.BigEndian.AppendUint32(append(b, kind), uint32(len(value)))
		b = append(b, value...)
	}
	return b
}

// parseControl reads a message's entries. The loopback device is trusted, so an
// answer's signature is not looked at.
func parseControl(b []byte) ([]controlField, error) {
	fields := []controlField{}
	for len(b) > 0 {
		name := int(b[0])
		if len(b) < 1+name+5 {
			return nil, fmt.Errorf("%w: it ends in an entry", errControl)
		}
		f, kind, size := controlField{name: string(b[1 : 1+name])}, b[1+name], binary.BigEndian.Uint32(b[2+name:])
		b = b[1+name+5:]
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: it ends in %q", errControl, f.name)
		}
		value := b[:size:size]
		b = b[size:]
		switch kind {
		case controlText:
			f.text = value
		case controlTable:
			var err error
			if f.table, err = parseControl(value); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%w: %q has type %d", errControl, f.name, kind)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// find returns the text of an entry of a table, nil when there is none.
func find(fields []controlField, table, name string) []byte {
	for _, t := range fields {
		for _, f := range t.table {
			if t.name == table && f.name == name {
				return f.text
			}
		}
	}
	return nil
}
