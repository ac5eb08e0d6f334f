package symptom

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
)

func place() Site {
	second := netip.MustParseAddr("198.18.0.102")
	return Site{
		Service: addr.N(addr.Service, "s"), Director: director, Backend: web, Clients: []Card{{client, "wire"}},
		VIPs: []netip.Addr{vip}, Port: 53, Protocol: "udp", Address: own, Card: "wire", Tunnel: "up", Fallback: "tunl0",
		Held:   []netip.Prefix{netip.MustParsePrefix("198.18.0.10/24"), netip.PrefixFrom(vip, 32), netip.PrefixFrom(second, 32)},
		HeldBy: "wire", DirectorNow: map[string]string{nodest: "0"},
		BackendNow: map[string]string{
			rpFilterAll: "0", "net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2",
			"net.ipv4.conf.wire.arp_ignore": "0", "net.ipv4.conf.wire.arp_announce": "0",
		},
	}
}

// The golden file holds what is done in the guests and how it is taken back.
func TestPlants(t *testing.T) {
	var b strings.Builder
	for _, name := range Plantable {
		p, err := place().Plant(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Symptom != name || p.At.IsZero() || len(p.Undo) == 0 {
			t.Errorf("%s: %+v", name, p)
		}
		fmt.Fprintf(&b, "== %s at %s: %s\n", name, p.At, p.Says)
		for _, s := range p.Do {
			fmt.Fprintf(&b, "%s:\n%s\n", s.Machine, s.Script)
		}
		b.WriteString("-- back\n")
		for _, s := range p.Undo {
			fmt.Fprintf(&b, "%s:\n%s\n", s.Machine, s.Script)
		}
		b.WriteString("\n")

		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back Plant
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back, cmpopts.EquateComparable(addr.Noun{})); diff != "" {
			t.Errorf("%s does not survive the journal:\n%s", name, diff)
		}
	}
	golden.Check(t, "plants.txt", b.String())
}

// What a service can't have is refused with the reason.
func TestUnfitServices(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		name   Name
		change func(*Site)
	}{
		{Fallback, func(s *Site) { s.Tunnel = "" }},
		{RPFilter, func(s *Site) { s.Tunnel = "" }},
		{VIPNotLocal, func(s *Site) { s.Held = s.Held[:1] }},
		{StaleEntries, func(s *Site) { s.OnePacket = true }},
		{OwnAddress, func(s *Site) { s.Protocol = "tcp" }},
	} {
		s := place()
		c.change(&s)
		_, err := s.Plant(c.name)
		if !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		d := diag.From(err)[0]
		b.WriteString(d.Address + ": " + d.Summary + "\n" + d.Detail + "\n→ " + d.Remedy + "\n\n")
	}
	if _, err := place().Plant(NoVIP); err == nil || errors.Is(err, ErrUnfit) {
		t.Errorf("a symptom that can't be planted: %v", err)
	}
	golden.Check(t, "unfit.txt", b.String())
}
