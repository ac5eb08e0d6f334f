package server

import (
	"bufio"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/golden"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"ls -la /run":                    {"ls", "-la", "/run"},
		"  dig  @198.18.0.1 'a b' x'y'z": {"dig", "@198.18.0.1", "a b", "xyz"},
		"cat ''":                         {"cat", ""},
		"grep 'a|b' f":                   {"grep", "a|b", "f"},
		"ip a=b":                         {"ip", "a=b"},
		"ls | wc":                        nil,
		"ls > f":                         nil,
		"echo x":                         nil, // means the shell's own
		"A=1 ls":                         nil,
		"ls $HOME":                       nil,
		"ls *":                           nil,
		"ls 'a":                          nil,
		`ls "a"`:                         nil,
		"ls ~":                           nil,
		"ls\nls":                         nil,
		"":                               nil,
	} {
		got, plain := splitWords(text)
		if plain != (want != nil || text == "") || plain && !slices.Equal(got, want) {
			t.Errorf("%q: %q %v, want %q", text, got, plain, want)
		}
	}
}

func TestParseKernelLine(t *testing.T) {
	for record, want := range map[string]proto.KernelLine{
		"6,339,5140900,-;NET: Registered PF_INET6\n SUBSYSTEM=net\n": {Seq: 339, Level: 6, USec: 5140900, Text: "NET: Registered PF_INET6"},
		"12,1,2,-,caller=T1;agent: a;b":                              {Seq: 1, Level: 4, USec: 2, Text: "agent: a;b"},
	} {
		if got, ok := parseKernelLine(record); !ok || got != want {
			t.Errorf("%q: %+v %v", record, got, ok)
		}
	}
	for _, record := range []string{"", ";", "6,339;x", "a,b,c,-;x", "6,1,2,-"} {
		if got, ok := parseKernelLine(record); ok {
			t.Errorf("%q is taken for %+v", record, got)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("6,339,5140900,-;text")
	f.Add("Udp: InDatagrams NoPorts\nUdp: 1 2\n")
	f.Add("  sl  local_address\n 1: 1E0012C6:0035 00000000:0000 07\n")
	f.Add("ls 'a b' c")
	f.Add(knotStatsAnswer)
	f.Add(nsdStats)
	f.Add(`{"opcodes":{"QUERY":3},"rcodes":{"NOERROR":2},"nsstats":{"Requestv4":3}}`)
	f.Fuzz(func(t *testing.T, text string) {
		parseKernelLine(text)
		parseSNMP(strings.NewReader(text), map[string]uint64{})
		parseBound(strings.NewReader(text), 53)
		_, _ = parseNamedStats([]byte(text))
		_, _ = parseNSDStats(text)
		_, _ = parseUnboundStats(text)
		_, _ = parseAuthZones(text, "lab.test")
		if items, err := parseKnot(bufio.NewReader(strings.NewReader(text))); err == nil {
			_, _ = knotCounters(items)
			_, _ = knotSerial(items)
		}
		zoneError(strings.Split(text, "\n"), proto.ZoneFile{Name: "lab.test", Text: text})
		_, _ = httpBody(bufio.NewReader(strings.NewReader(text)))
		var a proto.QueryAnswer
		_ = parseAnswer([]byte(text), 1, &a)
		zoneProblems(strings.Split(text, "\n"), proto.NamedSpec{Zones: []proto.ZoneFile{{Name: "lab.test", Text: text}}})
		if words, plain := splitWords(text); plain {
			for _, w := range words {
				if strings.ContainsRune(w, '\'') {
					t.Errorf("a quote is left in %q of %q", w, text)
				}
			}
		}
	})
}

func TestParseSNMP(t *testing.T) {
	const text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: MaxConn ActiveOpens\nTcp: -1 7\nUdp: RcvbufErrors\nUdp: 1 2\nIpExt: InOctets\n"
	got := map[string]uint64{}
	parseSNMP(strings.NewReader(text), got)
	want := map[string]uint64{"Ip.Forwarding": 1, "Ip.DefaultTTL": 64, "Tcp.ActiveOpens": 7}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseBound(t *testing.T) {
	const text = `  sl  local_address rem_address   st
  10: 0100007F:0035 00000000:0000 07
  11: 1E0012C6:0035 00000000:0000 07
  12: 1E0012C6:14E9 00000000:0000 07
  13: B80D0120000000000000000001000000:0035 00000000000000000000000000000000:0000 07
  14: zz:0035
`
	got := parseBound(strings.NewReader(text), 53)
	want := []netip.Addr{netip.MustParseAddr("198.18.0.30"), netip.MustParseAddr("2001:db8::1")}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func spec() proto.NamedSpec {
	return proto.NamedSpec{ServerID: `backend.ns["a"]`, Listen: []netip.Addr{netip.MustParseAddr("198.18.0.30")}, Zones: []proto.ZoneFile{
		{Name: "lab.test", Text: "$TTL 60\n@ IN SOA ns root 1 1 1 1 1\nbad IN A 1.2.3\n"},
		{Name: "0/25.2.0.192.in-addr.arpa", Text: "x"},
	}}
}

func TestNamedConf(t *testing.T) { golden.Check(t, "named.conf", namedConf(spec(), controlKey{})) }

func TestZoneProblems(t *testing.T) {
	log := []string{
		"dns_rdata_fromtext: zones/lab.test.zone:3: near '1.2.3': bad dotted quad",
		"zone lab.test/IN: loading from master file zones/lab.test.zone failed: bad dotted quad",
		"zone lab.test/IN: not loaded due to errors.",
		"zone 0/25.2.0.192.in-addr.arpa/IN: loaded serial 1",
		"all zones loaded",
	}
	got := zoneProblems(log, spec())
	want := []zoneProblem{{"lab.test", "lab.test.zone:3: near '1.2.3': bad dotted quad (line 3: bad IN A 1.2.3)"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = zoneProblems([]string{"zone 0/25.2.0.192.in-addr.arpa/IN: has no NS records", "zone 0/25.2.0.192.in-addr.arpa/IN: not loaded due to errors."}, spec())
	if len(got) != 1 || got[0].reason != "has no NS records" {
		t.Errorf("got %q", got)
	}
}

func TestLoaded(t *testing.T) {
	two := []string{"a.test", "b.test"}
	for _, c := range []struct {
		log  string
		want bool
	}{
		{"all zones loaded|running", false},
		{"all zones loaded|running|zone a.test/IN: loaded serial 1", false},
		{"all zones loaded|running|zone a.test/IN: loaded serial 1|zone b.test/IN: not loaded due to errors.", true},
		{"zone a.test/IN: loaded serial 1|zone b.test/IN: loaded serial 1|all zones loaded", false},
		{"reloading configuration failed: failure", true},
	} {
		if got := loaded(strings.Split(c.log, "|"), two); got != c.want {
			t.Errorf("%s: %v", c.log, got)
		}
	}
}

func TestNamedStatistics(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" +
		`{"boot-time":"2026-12-01T09:59:00.000Z","opcodes":{"QUERY":12,"IQUERY":0},"rcodes":{"NOERROR":11,"NXDOMAIN":0},"nsstats":{"Requestv4":10,"Requestv6":2,"ReqTCP":3,"Response":12,"TruncatedResp":1},"views":{}}`
	body, err := httpBody(bufio.NewReader(strings.NewReader(answer)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseNamedStats(body)
	want := proto.NamedCounters{Requests: 12, RequestsTCP: 3, Responses: 12, Truncated: 1, Queries: 12, Rcodes: map[string]uint64{"NOERROR": 11},
		Started: "2026-12-01T09:59:00.000Z"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := httpBody(bufio.NewReader(strings.NewReader("HTTP/1.1 404 Not Found\r\n\r\n"))); err == nil {
		t.Error("404 passed")
	}
}

func TestVersionPattern(t *testing.T) {
	for text, want := range map[string]string{
		"BIND 9.18.49-1~deb12u3-Debian (Extended Support Version) <id:>": "9.18.49",
		"DNS Performance Testing Tool\nVersion 2.10.0\n\nUsage":          "2.10.0",
	} {
		if m := versionPattern.FindStringSubmatch(text); len(m) != 2 || m[1] != want {
			t.Errorf("%q: %v", text, m)
		}
	}
}

func TestQueryAndAnswer(t *testing.T) {
	packet, err := buildQuery(proto.QuerySpec{Name: "host1.lab.test", Type: "TXT", Class: "CH", NSID: true}, 77)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		t.Fatal(err)
	}
	if m.ID != 77 || m.Questions[0].Class != dnsmessage.ClassCHAOS || len(m.Additionals) != 1 {
		t.Errorf("query %+v", m)
	}
	m.Response, m.RCode = true, dnsmessage.RCodeRefused
	m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassCHAOS},
		Body: &dnsmessage.TXTResource{TXT: []string{`a"b\`, "c\x01"}}}}
	m.Additionals[0].Body.(*dnsmessage.OPTResource).Options[0].Data = []byte("backend.ns[0]")
	if packet, err = m.Pack(); err != nil {
		t.Fatal(err)
	}
	var a proto.QueryAnswer
	if err := parseAnswer(packet, 77, &a); err != nil {
		t.Fatal(err)
	}
	if a.Rcode != "REFUSED" || a.NSID != "backend.ns[0]" || len(a.Answers) != 1 || a.Answers[0] != `"a\"b\\" "c\001"` {
		t.Errorf("answer %+v", a)
	}
	if err := parseAnswer(packet, 78, &a); err == nil {
		t.Error("an answer with another id passed")
	}
	for _, bad := range []proto.QuerySpec{{Name: "x", Type: "NONE"}, {Name: "x", Type: "A", Class: "XX"}, {Name: strings.Repeat("x", 300), Type: "A"}} {
		if _, err := buildQuery(bad, 1); err == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

func TestRdata(t *testing.T) {
	name := dnsmessage.MustNewName("ns.lab.test.")
	for want, body := range map[string]dnsmessage.ResourceBody{
		"192.0.2.1":                           &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}},
		"2001:db8::1":                         &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("2001:db8::1").As16()},
		"ns.lab.test. ns.lab.test. 1 2 3 4 5": &dnsmessage.SOAResource{NS: name, MBox: name, Serial: 1, Refresh: 2, Retry: 3, Expire: 4, MinTTL: 5},
		"10 ns.lab.test.":                     &dnsmessage.MXResource{Pref: 10, MX: name},
		"1 2 53 ns.lab.test.":                 &dnsmessage.SRVResource{Priority: 1, Weight: 2, Port: 53, Target: name},
		`\# 2 0aff`:                           &dnsmessage.UnknownResource{Type: 257, Data: []byte{10, 255}},
	} {
		if got := rdata(body); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseSNMP6(t *testing.T) {
	const text = "Ip6InReceives                   \t21\nIcmp6InMsgs  \t9\nIcmp6InType135 \t9\nUdp6InDatagrams\t3\nIp6\t1\nIp6OutRequests x\nIp6InDelivers\n"
	got := map[string]uint64{"Ip.InReceives": 4}
	parseSNMP6(strings.NewReader(text), got)
	want := map[string]uint64{"Ip.InReceives": 4, "Ip6.InReceives": 21, "Icmp6.InMsgs": 9}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
