package server

import (
	"net"
	"net/netip"
	"testing"
)

func TestARPAnswer(t *testing.T) {
	about, from := netip.MustParseAddr("198.18.0.101"), netip.MustParseAddr("198.18.0.128")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	question := arpQuestion(mac, about, from)
	answer := append([]byte(nil), question...)
	answer[7] = arpReply
	padded := append(append([]byte(nil), answer...), make([]byte, 18)...)
	other := arpQuestion(mac, from, about)
	other[7] = arpReply
	for name, c := range map[string]struct {
		packet []byte
		ok     bool
	}{
		"answer": {answer, true}, "answer with padding": {padded, true}, "question": {question, false},
		"about another address": {other, false}, "cut": {answer[:arpSize-1], false}, "empty": {nil, false},
	} {
		if got, ok := arpAnswer(c.packet, about); ok != c.ok || ok && got != "02:00:00:00:00:07" {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

func FuzzARPAnswer(f *testing.F) {
	about := netip.MustParseAddr("198.18.0.101")
	f.Add(arpQuestion(net.HardwareAddr{2, 0, 0, 0, 0, 7}, about, about))
	f.Fuzz(func(t *testing.T, b []byte) {
		if mac, ok := arpAnswer(b, about); ok {
			if _, err := net.ParseMAC(mac); err != nil || len(b) < arpSize {
				t.Errorf("%q of %x", mac, b)
			}
		}
	})
}
