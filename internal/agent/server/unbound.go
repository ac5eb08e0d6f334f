package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// unbound is NLnet Labs' resolver, 1.17 in Debian 12, as the authoritative server
// that it can be: zones from files, and nothing is resolved.
type unbound struct{}

const (
	unboundDir     = "/run/unbound"
	unboundControl = unboundDir + "/control"
)

func (unbound) user() string { return "unbound" }

// program runs it in the foreground. The identity is the host name, as with nsd.
func (unbound) program(spec proto.NamedSpec) daemonProgram {
	return daemonProgram{
		name: "unbound", args: []string{"-d", "-c", unboundDir + "/unbound.conf"}, dir: unboundDir, logFile: FileRoot + "/unbound.log", hostname: spec.ServerID,
		stamp:   regexp.MustCompile(`^\[\d+\] unbound\[[\d:]*\] `),
		version: regexp.MustCompile(`start of service \(unbound ([^)]*)\)`),
	}
}

// conf lets it answer from its zones and refuse all else, as the others do. Each
// zone is also declared transparent: unbound has zones of its own, test among
// them, which would answer first (unbound.conf(5), local-zone). It takes ten TCP
// connections by default.
func (unbound) conf(spec proto.NamedSpec) (name, text string) {
	var b strings.Builder
	fmt.Fprintf(&b, `server:
	directory: "%[1]s"
	chroot: ""
	username: unbound
	pidfile: ""
	logfile: ""
	use-syslog: no
	verbosity: 1
	num-threads: 1
	module-config: "iterator"
	outgoing-range: 16
	outgoing-num-tcp: 1
	hide-version: yes
	nsid: "%[2]s"
	ip-freebind: yes
	incoming-num-tcp: %[3]d
	tcp-idle-timeout: %[4]d
	edns-buffer-size: %[5]d
	max-udp-size: %[5]d
	extended-statistics: yes
	statistics-interval: 0
`, unboundDir, hex.EncodeToString([]byte(spec.ServerID)), tcpClients, tcpIdleSeconds*1000, udpSize)
	for _, all := range []string{"0.0.0.0/0", "127.0.0.0/8", "::/0", "::1/128"} {
		fmt.Fprintf(&b, "\taccess-control: %s refuse_non_local\n", all)
	}
	for _, a := range listens(spec) {
		fmt.Fprintf(&b, "\tinterface: %s@%d\n", a, dnsPort)
	}
	for _, z := range spec.Zones {
		fmt.Fprintf(&b, "\tlocal-zone: \"%s.\" transparent\n", z.Name)
	}
	fmt.Fprintf(&b, "remote-control:\n\tcontrol-enable: yes\n\tcontrol-use-cert: no\n\tcontrol-interface: \"%s\"\n", unboundControl)
	for _, z := range spec.Zones {
		fmt.Fprintf(&b, "auth-zone:\n\tname: \"%s.\"\n\tzonefile: \"%s\"\n\tfor-downstream: yes\n\tfor-upstream: no\n", z.Name, plainFile(z.Name))
	}
	return "unbound.conf", b.String()
}

func (unbound) serial(ctx context.Context, zone string, _ uint32, _ []string) (uint32, error) {
	said, err := lineControl(ctx, unboundControl, "UBCT1", "list_auth_zones")
	if err != nil {
		return 0, err
	}
	return parseAuthZones(said, zone)
}

// parseAuthZones finds a zone in lines of "lab.test.<tab>serial 7". One that could
// not be loaded has no serial there, and what is no letter, digit, "-", "_" or "*" of
// a name is a question mark (measured on 1.17: "0?25.2.0.192.in-addr.arpa.").
func parseAuthZones(said, zone string) (uint32, error) {
	listed := unlisted.ReplaceAllString(zone, "?") + "."
	for line := range strings.Lines(said) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name != listed {
			continue
		}
		number, ok := strings.CutPrefix(text, "serial ")
		v, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil {
			return 0, notServed(text)
		}
		return uint32(v), nil
	}
	return 0, notServed("unbound does not list it")
}

func (unbound) counters(ctx context.Context) (proto.NamedCounters, error) {
	said, err := lineControl(ctx, unboundControl, "UBCT1", "stats_noreset")
	if err != nil {
		return proto.NamedCounters{}, err
	}
	return parseUnboundStats(said)
}

var unlisted = regexp.MustCompile(`[^a-zA-Z0-9.*_-]`)

var errStatistics = errors.New("unreadable statistics")

// parseUnboundStats reads what unbound-control(8) calls stats, with
// extended-statistics. Truncated answers are not counted. nodata stands beside
// the rcodes and is in NOERROR already.
func parseUnboundStats(said string) (proto.NamedCounters, error) {
	n, err := parseNumbers(said)
	if err != nil {
		return proto.NamedCounters{}, err
	}
	if _, extended := n["num.query.tcp"]; !extended {
		return proto.NamedCounters{}, fmt.Errorf("%w: they are not extended ones", errStatistics)
	}
	delete(n, "num.answer.rcode.nodata")
	c := proto.NamedCounters{Requests: n["total.num.queries"], RequestsTCP: n["num.query.tcp"], Queries: n["num.query.opcode.QUERY"]}
	c.Rcodes, c.Responses = rcodesOf(n, "num.answer.rcode.")
	return c, nil
}
