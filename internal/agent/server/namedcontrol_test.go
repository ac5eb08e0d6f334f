package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// controlEnd answers one visitor as named does: a nonce for "null", then what is
// given for the command. It returns the command that it took, "" for one with a
// wrong signature or nonce.
func controlEnd(t *testing.T, key controlKey, answer []controlField) (at string, took <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	commands := make(chan string, 1)
	go func() {
		defer close(commands)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		nonce := []controlField{{name: "_ctrl", table: []controlField{text("_nonce", "4711")}}}
		for _, a := range [][]controlField{nonce, answer} {
			command, nonce := takeControl(t, c, key)
			if command != "null" {
				if nonce != "4711" {
					command = ""
				}
				commands <- command
			}
			body := appendControl(nil, a)
			reply := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
			if _, err := c.Write(append(binary.BigEndian.AppendUint32(reply, 1), body...)); err != nil {
				return
			}
		}
	}()
	return l.Addr().String(), commands
}

func takeControl(t *testing.T, c io.Reader, key controlKey) (command, nonce string) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil {
		return "", ""
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return "", ""
	}
	fields, err := parseControl(body)
	if err != nil || fields[0].name != "_auth" {
		t.Errorf("message %q, %v", body, err)
		return "", ""
	}
	mac := hmac.New(sha256.New, key[:])
	mac.Write(body[len(appendControl(nil, fields[:1])):])
	signature := strings.TrimRight(string(find(fields, "_auth", "hsha")[1:]), "\x00")
	if signature != base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		return "", ""
	}
	return string(find(fields, "_data", "type")), string(find(fields, "_ctrl", "_nonce"))
}

func TestControlCommand(t *testing.T) {
	key := newControlKey()
	for want, answer := range map[string][]controlField{
		"":                              {{name: "_data", table: []controlField{text("result", "0"), text("text", "done")}}},
		"named refuses: already exists": {{name: "_data", table: []controlField{text("result", "18"), text("err", "already exists")}}},
	} {
		at, took := controlEnd(t, key, answer)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		said, err := controlCommand(ctx, at, key, `addzone "a" {};`)
		cancel()
		if got := <-took; got != `addzone "a" {};` {
			t.Errorf("named got %q", got)
		}
		if want == "" && (err != nil || said != "done") || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("said %q, %v, want %q", said, err, want)
		}
	}
	if _, err := controlCommand(t.Context(), "127.0.0.1:1", key, "status"); err == nil {
		t.Error("nobody listens, and no error")
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(controlMessage(controlKey{}, "null", "1", time.Unix(1, 0))[8:])
	f.Add([]byte("\x01a\x03\x00\x00\x00\x00"))
	f.Add([]byte("\xffa"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := parseControl(b)
		if err != nil {
			if !errors.Is(err, errControl) {
				t.Error(err)
			}
			return
		}
		if again := appendControl(nil, fields); string(again) != string(b) {
			t.Errorf("%q became %q", b, again)
		}
	})
}
