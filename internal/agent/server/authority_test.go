package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/golden"
)

// The goldens were tried with the programs of Debian 12: TestAccServers runs them.
func TestServerConfigurations(t *testing.T) {
	s := spec()
	s.Listen = append(s.Listen, netip.MustParseAddr("198.18.0.101"), netip.MustParseAddr("2001:db8::101"))
	for _, k := range []authorityKind{nsd{}, knot{}, unbound{}} {
		name, text := k.conf(s)
		golden.Check(t, name, text)
	}
}

// What nsd 4.6.1 says to stats_noreset after 9 queries, one of them by TCP, some
// lines left out.
const nsdStats = `server0.queries=9
num.queries=9
time.boot=0.978724
size.db.mem=3848
num.opcode.QUERY=9
num.opcode.NOTIFY=0
num.class.IN=6
num.rcode.NOERROR=6
num.rcode.FORMERR=0
num.rcode.NXDOMAIN=1
num.rcode.REFUSED=2
num.udp=8
num.udp6=0
num.tcp=1
num.tcp6=0
num.truncated=1
num.dropped=0
zone.master=1
`

// What unbound 1.17.1 says to the same.
const unboundStats = `thread0.num.queries=9
total.num.queries=9
total.num.cachehits=9
time.up=0.886026
num.query.opcode.QUERY=9
num.query.tcp=1
num.query.ipv6=0
num.answer.rcode.NOERROR=6
num.answer.rcode.NXDOMAIN=1
num.answer.rcode.REFUSED=2
num.answer.rcode.nodata=1
num.query.authzone.down=5
`

// What knotd 3.2.6 says to the same: units, codes and lengths as they were read
// from its socket.
const knotStatsAnswer = "\x01\x13\x00\x06server\x14\x00\x0azone-count\x1a\x00\x011" +
	"\x01\x13\x00\x09mod-stats\x14\x00\x10request-protocol\x15\x00\x04udp4\x1a\x00\x018" +
	"\x02\x13\x00\x09mod-stats\x14\x00\x10request-protocol\x15\x00\x04tcp4\x1a\x00\x011" +
	"\x01\x13\x00\x09mod-stats\x14\x00\x10server-operation\x15\x00\x05query\x1a\x00\x019" +
	"\x01\x13\x00\x09mod-stats\x14\x00\x0dflag-presence\x15\x00\x02TC\x1a\x00\x011" +
	"\x01\x13\x00\x09mod-stats\x14\x00\x0dresponse-code\x15\x00\x07NOERROR\x1a\x00\x016" +
	"\x02\x13\x00\x09mod-stats\x14\x00\x0dresponse-code\x15\x00\x08NXDOMAIN\x1a\x00\x011" +
	"\x02\x13\x00\x09mod-stats\x14\x00\x0dresponse-code\x15\x00\x07REFUSED\x1a\x00\x012\x03"

func TestServerStatistics(t *testing.T) {
	items, err := parseKnot(bufio.NewReader(strings.NewReader(knotStatsAnswer)))
	if err != nil {
		t.Fatal(err)
	}
	byKnot, err1 := knotCounters(items)
	byNSD, err2 := parseNSDStats(nsdStats)
	byUnbound, err3 := parseUnboundStats(unboundStats)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	want := proto.NamedCounters{Requests: 9, RequestsTCP: 1, Responses: 9, Truncated: 1, Queries: 9,
		Rcodes: map[string]uint64{"NOERROR": 6, "NXDOMAIN": 1, "REFUSED": 2}}
	for name, got := range map[string]proto.NamedCounters{"nsd": byNSD, "knot": byKnot, "unbound": byUnbound} {
		if name == "unbound" {
			want.Truncated = 0
		} else {
			want.Truncated = 1
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if _, err := parseUnboundStats("total.num.queries=9\n"); !errors.Is(err, errStatistics) {
		t.Errorf("statistics without the transports: %v", err)
	}
	if _, err := parseNSDStats("what\n"); !errors.Is(err, errStatistics) {
		t.Errorf("no statistics: %v", err)
	}
	if _, err := knotCounters([]knotItem{{knotSection: knotStats, knotName: "request-protocol", knotID: "udp4", knotData: "x"}}); !errors.Is(err, errStatistics) {
		t.Errorf("no number: %v", err)
	}
}

func TestKnotMessages(t *testing.T) {
	const asked = "\x01\x10\x00\x0bzone-status\x16\x00\x08lab.test\x1b\x00\x01s\x03"
	if got := string(knotMessage(knotItem{knotCmd: "zone-status", knotZone: "lab.test", knotFilter: "s"})); got != asked {
		t.Errorf("got %q, want %q", got, asked)
	}
	for _, broken := range []string{"", "\x01", "\x01\x13", "\x01\x13\x00\x05serv", "\x13\x00\x01x\x03", "\x09"} {
		if items, err := parseKnot(bufio.NewReader(strings.NewReader(broken))); err == nil {
			t.Errorf("%q passed as %v", broken, items)
		}
	}
}

// answering is a control socket that gives one answer to the end of one question.
func answering(t *testing.T, end byte, answer string) (path string, asked func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	question := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		q, _ := bufio.NewReader(c).ReadString(end)
		question <- q
		_, _ = io.WriteString(c, answer)
	}()
	return path, func() string { return <-question }
}

// Which serial is served, and that a zone is not, in the servers' own words.
func TestServedSerial(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), statsWithin)
	defer cancel()
	path, asked := answering(t, '\n', "error zone nope.test not configured\n")
	if _, err := lineControl(ctx, path, "NSDCT1", "zonestatus nope.test"); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("refused by nsd: %v", err)
	}
	if got := asked(); got != "NSDCT1 zonestatus nope.test\n" {
		t.Errorf("asked %q", got)
	}
	path, _ = answering(t, knotUnitBlock, "\x01\x10\x00\x0bzone-status\x11\x00\x00\x12\x00\x12no such zone found\x16\x00\x09nope.test\x03")
	if _, err := knotCommand(ctx, path, knotItem{knotCmd: "zone-status", knotZone: "nope.test"}); !errors.Is(err, errRefused) {
		t.Errorf("refused by knotd: %v", err)
	}
	path, _ = answering(t, knotUnitBlock, "\x01\x11\x00\x00\x16\x00\x09lab.test.\x19\x00\x06serial\x1a\x00\x017\x03")
	items, err := knotCommand(ctx, path, knotItem{knotCmd: "zone-status", knotZone: "lab.test", knotFilter: "s"})
	if v, e := knotSerial(items); err != nil || e != nil || v != 7 {
		t.Errorf("knotd serves %d: %v, %v", v, err, e)
	}
	if _, err := knotSerial([]knotItem{{knotType: "serial", knotData: "-"}}); !errors.Is(err, errNotServed) {
		t.Errorf("a zone that knotd could not load: %v", err)
	}
	const zones = "other.lab.test.\tserial 3\nlab.test.\tserial 7\nbad.test.\tno serial\n"
	if v, err := parseAuthZones("0?25.2.0.192.in-addr.arpa.\tserial 3\n", "0/25.2.0.192.in-addr.arpa"); v != 3 || err != nil {
		t.Errorf("a name with a slash: %d, %v", v, err)
	}
	if v, err := parseAuthZones(zones, "lab.test"); v != 7 || err != nil {
		t.Errorf("unbound serves %d: %v", v, err)
	}
	for _, missing := range []string{"nope.test", "bad.test"} {
		if _, err := parseAuthZones(zones, missing); !errors.Is(err, errNotServed) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// The lines are those of nsd 4.6.1, knotd 3.2.6 and unbound 1.17.1.
func TestZoneError(t *testing.T) {
	z := spec().Zones[0]
	for want, log := range map[string]string{
		"lab.test.zone:3: invalid IPv4 address '1.2.3' (line 3: bad IN A 1.2.3)":                              "notice: nsd starting (NSD 4.6.1)|error: zones/lab.test.zone:3: invalid IPv4 address '1.2.3'|error: zone lab.test file zones/lab.test.zone read with 1 errors",
		"[lab.test.] zone loader, error in zone, file '/run/knot/zones/lab.test.zone', line 3 (invalid IPv4)": "info: starting server|error: [lab.test.] zone loader, error in zone, file '/run/knot/zones/lab.test.zone', line 3 (invalid IPv4)|error: [lab.test.] zone event 'load' failed (failed)",
		"parse error zones/lab.test.zone 5:11: Conversion error, ip4 addr expected":                           "notice: init module 0: iterator|error: parse error zones/lab.test.zone 5:11: Conversion error, ip4 addr expected|fatal error: auth_zones could not be setup",
		"": "error: [other.lab.test.] zone loader, error in zone|info: zone lab.test read with success|error: zone other.test file x read with 1 errors",
	} {
		if got := zoneError(strings.Split(log, "|"), z); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A zone that nsd has read again may have another serial, which it tells no other
// way than by an answer; without that it gets no query.
func TestNSDKnowsItsSerial(t *testing.T) {
	for lines, want := range map[string]bool{
		"info: control cmd: stats_noreset|info: zone other.test read with success": false,
		"info: zone lab.test read with success":                                    true,
		"error: zone lab.test file x read with 1 errors":                           true,
	} {
		if got := readAgain(strings.Split(lines, "|"), "lab.test"); got != want {
			t.Errorf("%s: %v", lines, got)
		}
	}
}

// The host name is there when the program starts, and in it alone.
func TestDaemonWithName(t *testing.T) {
	program := daemonProgram{name: "/bin/sh", args: []string{"-c", "echo is $(uname -n) >&2"}, dir: t.TempDir(), logFile: filepath.Join(t.TempDir(), "log"),
		stamp: nsd{}.program(proto.NamedSpec{}).stamp, version: nsd{}.program(proto.NamedSpec{}).version, hostname: `backend.ns["a"]`}
	p, err := program.start(t.Context())
	if err != nil {
		t.Skipf("no UTS namespace for this user: %v", err)
	}
	<-p.exited
	if got := p.since(0); len(got) != 1 || got[0] != `is backend.ns["a"]` {
		t.Errorf("it says %q", got)
	}
}
