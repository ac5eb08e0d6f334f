package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// nsd is NSD of NLnet Labs, 4.6 in Debian 12.
type nsd struct{}

const (
	nsdDir     = "/run/nsd"
	nsdControl = nsdDir + "/control"
)

func (nsd) user() string { return "nsd" }

// program runs it in the foreground. The identity is the host name, which nsd
// takes when its configuration gives none: there a text can't hold quotes.
func (nsd) program(spec proto.NamedSpec) daemonProgram {
	return daemonProgram{
		name: "nsd", args: []string{"-d", "-c", nsdDir + "/nsd.conf"}, dir: nsdDir, logFile: FileRoot + "/nsd.log", hostname: spec.ServerID,
		stamp:   regexp.MustCompile(`^\[[^]]*\] nsd\[\d+\]: `),
		version: regexp.MustCompile(`nsd starting \(NSD ([^)]*)\)`),
	}
}

// conf keeps to nsd's defaults but for these: no limit of the rate of responses
// (Debian builds one in, of 200 a second and source, nsd.conf(5)), one process
// to answer, as many TCP connections and as long as BIND's (tcp-clients,
// tcp-idle-timeout), nothing on disk.
func (nsd) conf(spec proto.NamedSpec) (name, text string) {
	var b strings.Builder
	fmt.Fprintf(&b, `server:
	server-count: 1
	username: nsd
	zonesdir: "%[1]s"
	database: ""
	zonelistfile: "%[1]s/zone.list"
	xfrdfile: ""
	xfrdir: "%[1]s"
	pidfile: ""
	hide-version: yes
	nsid: "%[2]s"
	ip-freebind: yes
	tcp-count: %[3]d
	tcp-timeout: %[4]d
	ipv4-edns-size: %[5]d
	ipv6-edns-size: %[5]d
	rrl-ratelimit: 0
	rrl-whitelist-ratelimit: 0
	verbosity: 1
`, nsdDir, hex.EncodeToString([]byte(spec.ServerID)), tcpClients, tcpIdleSeconds, udpSize)
	for _, a := range listens(spec) {
		fmt.Fprintf(&b, "\tip-address: %s\n", a)
	}
	fmt.Fprintf(&b, "remote-control:\n\tcontrol-enable: yes\n\tcontrol-interface: \"%s\"\n", nsdControl)
	for _, z := range spec.Zones {
		fmt.Fprintf(&b, "zone:\n\tname: \"%s\"\n\tzonefile: \"%s\"\n", z.Name, plainFile(z.Name))
	}
	return "nsd.conf", b.String()
}

// serial is the known one unless the zone was read again: nsd tells no serial of
// a zone that it does not transfer. In that case alone it gets a query, which it
// counts.
func (nsd) serial(ctx context.Context, zone string, known uint32, since []string) (uint32, error) {
	if _, err := lineControl(ctx, nsdControl, "NSDCT1", "zonestatus "+zone); err != nil {
		if errors.Is(err, errRefused) {
			return 0, notServed(err)
		}
		return 0, err
	}
	if !readAgain(since, zone) {
		return known, nil
	}
	return serial(ctx, listens(proto.NamedSpec{})[0], zone)
}

// readAgain reports whether the lines tell that a zone's file was read.
func readAgain(lines []string, zone string) bool {
	return slices.ContainsFunc(lines, func(l string) bool {
		return strings.Contains(l, "zone "+zone+" ") && strings.Contains(l, " read with ")
	})
}

// counters asks for the statistics, for which nsd 4.6 forks its answering process
// anew: it hands its counts over when it ends. The sockets stay, and no query is lost.
func (nsd) counters(ctx context.Context) (proto.NamedCounters, error) {
	said, err := lineControl(ctx, nsdControl, "NSDCT1", "stats_noreset")
	if err != nil {
		return proto.NamedCounters{}, err
	}
	return parseNSDStats(said)
}

// parseNSDStats reads what nsd-control(8) calls stats. Queries that get no answer
// are in num.dropped and in no rcode.
func parseNSDStats(said string) (proto.NamedCounters, error) {
	n, err := parseNumbers(said)
	if err != nil {
		return proto.NamedCounters{}, err
	}
	c := proto.NamedCounters{
		Requests: n["num.queries"], RequestsTCP: n["num.tcp"] + n["num.tcp6"], Truncated: n["num.truncated"],
		Queries: n["num.opcode.QUERY"],
	}
	c.Rcodes, c.Responses = rcodesOf(n, "num.rcode.")
	return c, nil
}
