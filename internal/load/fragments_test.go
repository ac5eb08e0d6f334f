package load

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

// Both captures are of Linux 6: two answers of 900 bytes over a link with an MTU of
// 400, three fragments each, on the loopback device; and a query of 237 bytes that
// must not be fragmented, before a link with an MTU of 200.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/captures/" + name + ".pcap")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// frames splits a capture into its header and its packets.
func frames(b []byte) (header []byte, packets [][]byte) {
	header, b = b[:24], b[24:]
	for len(b) > 0 {
		n := 16 + int(binary.LittleEndian.Uint32(b[8:]))
		packets, b = append(packets, b[:n]), b[n:]
	}
	return header, packets
}

func TestMatchFragments(t *testing.T) {
	header, all := frames(recorded(t, "fragments"))
	if len(all) != 8 {
		t.Fatalf("%d frames: query, three fragments, and the same again", len(all))
	}
	pick := func(list ...int) [][]byte {
		var out [][]byte
		for _, i := range list {
			out = append(out, all[i])
		}
		return out
	}
	late := slices.Clone(all[3])
	binary.LittleEndian.PutUint32(late, binary.LittleEndian.Uint32(late)+31)
	for _, c := range []struct {
		name     string
		packets  [][]byte
		outcomes []Outcome
		want     Fragmented
	}{
		{"in order", all, []Outcome{OK, OK}, Fragmented{Answers: 2, Fragments: 6}},
		{"the last comes first", pick(0, 3, 2, 1), []Outcome{OK}, Fragmented{Answers: 1, Fragments: 3}},
		{"two datagrams mixed", pick(0, 4, 1, 5, 6, 2, 3, 7), []Outcome{OK, OK}, Fragmented{Answers: 2, Fragments: 6}},
		{"one twice", pick(0, 1, 2, 2, 3), []Outcome{OK}, Fragmented{Answers: 1, Fragments: 4}},
		{"the first is missing", pick(0, 2, 3, 4, 5, 6, 7), []Outcome{Unanswered, OK}, Fragmented{Answers: 1, Fragments: 3, Incomplete: 1}},
		{"the last is missing", pick(0, 1, 2), []Outcome{Unanswered}, Fragmented{Incomplete: 1}},
		{"later than the receiver waits", append(pick(0, 1, 2), late), []Outcome{Unanswered}, Fragmented{Incomplete: 2}},
	} {
		s := MatchSpec{Clients: []netip.Addr{client}, VIPs: []netip.Addr{vip}, Port: 53, Timeout: time.Minute}
		m, err := Match(bytes.NewReader(slices.Concat(append([][]byte{header}, c.packets...)...)), s)
		if err != nil {
			t.Fatal(c.name, err)
		}
		var got []Outcome
		for _, q := range m.Queries {
			got = append(got, q.Outcome)
			if q.Outcome == OK && (q.AnswerBytes < 900 || q.Source != vip) {
				t.Errorf("%s: %+v", c.name, q)
			}
		}
		if !slices.Equal(got, c.outcomes) || m.Fragmented != c.want {
			t.Errorf("%s: %v %+v, want %v %+v", c.name, got, m.Fragmented, c.outcomes, c.want)
		}
		if twice := Merge(m, m); twice.Fragmented.Fragments != 2*m.Fragmented.Fragments || twice.Fragmented.Incomplete != 2*m.Fragmented.Incomplete {
			t.Errorf("%s: two clients have %+v", c.name, twice.Fragmented)
		}
	}
}

func TestMatchTooBig(t *testing.T) {
	s := MatchSpec{Clients: []netip.Addr{netip.MustParseAddr("198.18.1.128")}, VIPs: []netip.Addr{vip}, Port: 53, Timeout: time.Minute}
	m, err := Match(bytes.NewReader(recorded(t, "too-big")), s)
	if err != nil || len(m.ICMP) != 1 || !m.ICMP[0].TooBig() || m.ICMP[0].From.String() != "198.18.1.1" || len(m.Queries) != 1 || m.Queries[0].Outcome != Unanswered {
		t.Errorf("%+v, %v", m, err)
	}
	for _, c := range []ICMPCount{{Type: 3, Code: 3}, {Type: 11, Code: 4}, {V6: true, Type: 3, Code: 4}, {V6: true, Type: 1}} {
		if c.TooBig() {
			t.Errorf("%+v is not about a size", c)
		}
	}
	if !(ICMPCount{V6: true, Type: 2}).TooBig() {
		t.Error("ICMPv6 has a type of its own for it")
	}
}
