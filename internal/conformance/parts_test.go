package conformance

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

func parse(t *testing.T, text string) ipvsmodel.Script {
	t.Helper()
	s, err := ipvsmodel.ParseScript(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The model accepts every random script, and the same seed gives the same one.
func TestGenerate(t *testing.T) {
	seen := map[string]bool{}
	for n := range uint64(2000) {
		lines := Generate(1, n)
		if !slices.Equal(lines, Generate(1, n)) {
			t.Fatal("not the same again")
		}
		s := parse(t, strings.Join(lines, "\n"))
		if _, err := s.Run(); err != nil {
			t.Fatalf("case %d: %v\n%s", n, err, strings.Join(lines, "\n"))
		}
		for _, step := range s.Steps {
			seen[step.Verb] = true
			if step.Verb == "service" {
				seen[step.Args[2]] = true
			}
		}
	}
	for _, want := range append([]string{"edit", "set", "remove", "delete", "sysctl", "send"}, Schedulers...) {
		if !seen[want] {
			t.Errorf("no case has %s", want)
		}
	}
}

func TestMinimise(t *testing.T) {
	in := strings.Split("abcdefghijklmnop", "")
	got := Minimise(in, func(l []string) bool { return slices.Contains(l, "c") && slices.Contains(l, "n") })
	if !slices.Equal(got, []string{"c", "n"}) {
		t.Errorf("%q", got)
	}
}

func TestFirstDifference(t *testing.T) {
	if d := firstDifference([]string{"a"}, []string{"a"}); d != "" {
		t.Error(d)
	}
	if d := firstDifference([]string{"a", "b"}, []string{"a"}); d != "model: b; kernel: nothing" {
		t.Error(d)
	}
}

func TestUnfit(t *testing.T) {
	for text, want := range map[string]string{
		"wait 2s": "", "wait 20s": "needs 20s", "kernel before-2026": "rules of another kernel",
		"service udp 10.0.0.100:53 twos": "kernel has no twos", "seed 4": "chance",
		"service udp 10.0.0.100:53 rr persist=60s netmask=255.255.255.0": "",
		"service udp 10.0.0.100:53 rr persist=60s netmask=0.0.0.255":     "a netmask that is no prefix",
	} {
		if got := Unfit(parse(t, text), Schedulers, longest); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The checksum of a header that has its checksum in it is 0 (RFC 1071).
func TestFrameChecksums(t *testing.T) {
	for _, step := range []string{"udp", "tcp"} {
		p := ipvsmodel.Packet{Protocol: ipvsmodel.UDP, Client: mustAddr("10.0.0.1:1000"), VIP: mustAddr("10.0.0.100:53"), Flags: ipvsmodel.SYN}
		if step == "tcp" {
			p.Protocol = ipvsmodel.TCP
		}
		f := frame([6]byte{1}, [6]byte{2}, &p)
		if checksum(0, f[14:34]) != 0 {
			t.Errorf("%s: IP", step)
		}
		l4 := f[34:]
		if checksum(sum(uint32(p.Protocol)+uint32(len(l4)), f[26:34]), l4) != 0 {
			t.Errorf("%s: checksum", step)
		}
	}
}
func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
