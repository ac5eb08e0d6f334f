package load

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSegmentsRoundTrip(t *testing.T) {
	want := []Segment{
		{N: 1, Time: time.Unix(1, 5).UTC(), Client: netip.MustParseAddrPort("198.18.0.1:7"), VIP: netip.MustParseAddrPort("198.18.0.2:53"), Flags: "syn"},
		{N: 2, Time: time.Unix(2, 0).UTC(), Client: netip.MustParseAddrPort("198.18.0.1:7"), VIP: netip.MustParseAddrPort("198.18.0.2:53"), Flags: "fin,ack"},
		{N: 3, Time: time.Unix(3, 0).UTC(), Client: netip.MustParseAddrPort("198.18.0.1:7"), VIP: netip.MustParseAddrPort("198.18.0.2:53"), Flags: "none"},
	}
	var b bytes.Buffer
	if err := WriteSegments(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSegments(bytes.NewReader(b.Bytes()))
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); d != "" || err != nil {
		t.Error(err, d)
	}
	for _, c := range []struct{ old, new, want string }{
		{"flags", "Flags", "the columns are"}, {"fin,ack", "fin,push", "line 3"}, {",syn", ",sin", "line 2"}, {"198.18.0.2:53", "vip", "line 2"}, {"1970", "70", "line 2"}, {"\n1,", "\nx,", "line 2"},
	} {
		if _, err := ReadSegments(strings.NewReader(strings.Replace(b.String(), c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

func FuzzReadSegments(f *testing.F) {
	f.Add([]byte("n,time,client,virtual,flags\n1,2026-12-02T10:00:00.5Z,198.18.0.1:7,198.18.0.2:53,syn\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ReadSegments(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteSegments(&b, got); err != nil {
			t.Fatal(err)
		}
		again, err := ReadSegments(bytes.NewReader(b.Bytes()))
		if err != nil || len(again) != len(got) {
			t.Fatalf("%d rows became %d: %v", len(got), len(again), err)
		}
	})
}
