package ipvs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

const connTable = `Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
UDP C6120080 9C40 C6120065 0035 C612001F 0035 UDP             299
UDP C6120080 0000 C6120065 0035 C612001F 0035 NONE             59
TCP fd000000000000000000000000000128 ABCD 1 2 3 4 5 6
`

func TestParseConns(t *testing.T) {
	v6 := "TCP fd00:0000:0000:0000:0000:0000:0000:0128 9C40 fd00:0000:0000:0000:0000:0000:0000:0101 0035 C612001F 0035 ESTABLISHED     899\n" +
		"UDP fd00:0000:0000:0000:0000:0000:0000:0128 9C41 fd00:0000:0000:0000:0000:0000:0000:0101 0035 fd00:0000:0000:0000:0000:0000:0000:0030 0035 UDP             299 sip abc\n"
	rows := strings.SplitAfter(connTable, "\n")
	got, err := ParseConns(strings.NewReader(strings.Join(rows[:3], "") + v6))
	if err != nil {
		t.Fatal(err)
	}
	want := []proto.IPVSConn{
		{Protocol: "udp", Client: addrPort("198.18.0.128:40000"), Virtual: addrPort("198.18.0.101:53"), Dest: addrPort("198.18.0.31:53"), State: "UDP", Expires: 299},
		{Protocol: "udp", Client: addrPort("198.18.0.128:0"), Virtual: addrPort("198.18.0.101:53"), Dest: addrPort("198.18.0.31:53"), State: "NONE", Expires: 59},
		{Protocol: "tcp", Client: addrPort("[fd00::128]:40000"), Virtual: addrPort("[fd00::101]:53"), Dest: addrPort("198.18.0.31:53"), State: "ESTABLISHED", Expires: 899},
		{Protocol: "udp", Client: addrPort("[fd00::128]:40001"), Virtual: addrPort("[fd00::101]:53"), Dest: addrPort("[fd00::30]:53"), State: "UDP", Expires: 299},
	}
	if diff := cmp.Diff(want, got, byValue); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseConns(strings.NewReader(connTable)); err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("broken row: %v", err)
	}
}

const percpu = `       Total Incoming Outgoing         Incoming         Outgoing
CPU    Conns  Packets  Packets            Bytes            Bytes
  0       1A      3E8        0             EA60                0
  1        1       10        0              3C0                0
  ~        9        9        9                9                9

     Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
           0        1        0               9C                0
`

func TestParseTotalsAddsTheCPUs(t *testing.T) {
	got, err := ParseTotals(strings.NewReader(percpu))
	if want := (proto.IPVSTotals{Conns: 27, InPackets: 1016, InBytes: 60960}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := ParseTotals(strings.NewReader("CPU\n")); err == nil {
		t.Error("a file without rows must be an error")
	}
}

const stats = `   Total Incoming Outgoing         Incoming         Outgoing
   Conns  Packets  Packets            Bytes            Bytes
      3C      4B0        0             CE40                0

 Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
       0        0        0                0                0
`

func TestParseStatsIsHexadecimal(t *testing.T) {
	got, err := ParseStats(strings.NewReader(stats))
	if want := (proto.IPVSCounters{Conns: 60, InPackets: 1200, InBytes: 52800}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func FuzzProcfs(f *testing.F) {
	f.Add(connTable)
	f.Add(percpu)
	f.Add(stats)
	f.Add("UDP :: 0 :: 0 ::1%x 0 UDP 1")
	f.Fuzz(func(t *testing.T, s string) {
		if rows, err := ParseConns(strings.NewReader(s)); err == nil {
			for _, c := range rows {
				if !c.Client.IsValid() || !c.Dest.IsValid() || c.Expires < 0 {
					t.Errorf("accepted %+v from %q", c, s)
				}
			}
		}
		_, _ = ParseTotals(strings.NewReader(s))
		_, _ = ParseStats(strings.NewReader(s))
	})
}
