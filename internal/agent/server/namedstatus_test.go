package server

import (
	"context"
	"errors"
	"testing"
	"time"
)

// status is what BIND 9.18 prints for a zone of a lab.
const status = `name: lab.test
type: primary
files: zones/lab.test
serial: 2026120201
nodes: 102
last loaded: Wed, 02 Dec 2026 20:13:27 GMT
secure: no
dynamic: no
reconfigurable via modzone: yes`

func TestSerialOnTheControlChannel(t *testing.T) {
	key := newControlKey()
	for name, c := range map[string]struct {
		answer []controlField
		serial uint32
		err    error
	}{
		"served": {[]controlField{text("result", "0"), text("text", status)}, 2026120201, nil},
		"not loaded": {[]controlField{text("result", "0"), text("text", "name: lab.test\ntype: primary\nserial: 0\nnodes: 0")},
			0, errNotServed},
		"unknown": {[]controlField{text("result", "23"), text("err", "not found"), text("text", "no matching zone 'lab.test' in any view")},
			0, errNotServed},
		"other words": {[]controlField{text("result", "0"), text("text", "last loaded: now\nserial: many")}, 0, errControl},
	} {
		at, took := controlEnd(t, key, []controlField{{name: "_data", table: c.answer}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		got, err := controlSerial(ctx, at, key, "lab.test")
		cancel()
		if command := <-took; command != "zonestatus lab.test" {
			t.Errorf("%s: named got %q", name, command)
		}
		if got != c.serial || !errors.Is(err, c.err) {
			t.Errorf("%s: serial %d, %v; want %d, %v", name, got, err, c.serial, c.err)
		}
	}
	// Nobody there is no word about the zone.
	if _, err := controlSerial(t.Context(), "127.0.0.1:1", key, "lab.test"); err == nil || errors.Is(err, errNotServed) {
		t.Errorf("nobody listens: %v", err)
	}
}
