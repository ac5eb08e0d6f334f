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

// knot is Knot DNS of CZ.NIC, 3.2 in Debian 12.
type knot struct{}

const (
	knotDir     = "/run/knot"
	knotControl = knotDir + "/control"
	// knotStats names the module that counts, in the configuration and before its
	// counters.
	knotStats = "mod-stats"
)

func (knot) user() string { return "knot" }

func (knot) program(proto.NamedSpec) daemonProgram {
	return daemonProgram{
		name: "knotd", args: []string{"-c", knotDir + "/knot.conf"}, dir: knotDir, logFile: FileRoot + "/knotd.log",
		stamp:   regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} `),
		version: regexp.MustCompile(`Knot DNS (\S+) starting`),
	}
}

// conf has knotd serve from one thread for each protocol and count; its databases
// get no more room than they must have, as the guest's files are in its memory.
func (knot) conf(spec proto.NamedSpec) (name, text string) {
	var b strings.Builder
	fmt.Fprintf(&b, `server:
    rundir: "%[1]s"
    user: "knot:knot"
    identity: "%[2]s"
    nsid: "0x%[3]s"
    version: ""
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    tcp-max-clients: %[4]d
    tcp-idle-timeout: %[5]d
    udp-max-payload: %[6]d
`, knotDir, quoteKnot(spec.ServerID), hex.EncodeToString([]byte(spec.ServerID)), tcpClients, tcpIdleSeconds, udpSize)
	for _, a := range listens(spec) {
		fmt.Fprintf(&b, "    listen: \"%s@%d\"\n", a, dnsPort)
	}
	fmt.Fprintf(&b, `control:
    listen: "%[1]s"
log:
  - target: "stderr"
    server: "info"
    control: "critical"
    zone: "info"
database:
    storage: "%[2]s"
    journal-db-max-size: 1M
    kasp-db-max-size: 5M
    timer-db-max-size: 1M
    catalog-db-max-size: 5M
%[3]s:
  - id: "all"
    request-protocol: on
    server-operation: on
    flag-presence: on
    response-code: on
template:
  - id: "default"
    storage: "%[2]s"
    global-module: "%[3]s/all"
    journal-content: none
    zonefile-sync: -1
    semantic-checks: off
`, knotControl, knotDir, knotStats)
	if len(spec.Zones) > 0 {
		b.WriteString("zone:\n")
	}
	for _, z := range spec.Zones {
		fmt.Fprintf(&b, "  - domain: \"%s.\"\n    file: \"%s\"\n", z.Name, plainFile(z.Name))
	}
	return "knot.conf", b.String()
}

// quoteKnot escapes for a quoted string of knot.conf.
func quoteKnot(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }

func (knot) serial(ctx context.Context, zone string, _ uint32, _ []string) (uint32, error) {
	items, err := knotCommand(ctx, knotControl, knotItem{knotCmd: "zone-status", knotZone: zone, knotFilter: "s"})
	if errors.Is(err, errRefused) {
		return 0, notServed(err)
	}
	if err != nil {
		return 0, err
	}
	return knotSerial(items)
}

// knotSerial finds the serial in an answer to zone-status.
func knotSerial(items []knotItem) (uint32, error) {
	for _, item := range items {
		if item[knotType] == "serial" {
			v, err := strconv.ParseUint(item[knotData], 10, 32)
			if err != nil { // "-" for a zone that could not be loaded
				return 0, notServed("serial " + item[knotData])
			}
			return uint32(v), nil
		}
	}
	return 0, notServed("knotd tells no serial")
}

func (knot) counters(ctx context.Context) (proto.NamedCounters, error) {
	items, err := knotCommand(ctx, knotControl, knotItem{knotCmd: "stats"})
	if err != nil {
		return proto.NamedCounters{}, err
	}
	return knotCounters(items)
}

// knotCounters reads the counters of mod-stats. Those that are zero are not in it.
func knotCounters(items []knotItem) (proto.NamedCounters, error) {
	c := proto.NamedCounters{Rcodes: map[string]uint64{}}
	section, counter := "", ""
	for _, item := range items {
		if item[knotSection] != "" { // later entries of one counter leave both out
			section, counter = item[knotSection], item[knotName]
		}
		if section != knotStats {
			continue
		}
		v, err := strconv.ParseUint(item[knotData], 10, 64)
		if err != nil {
			return c, fmt.Errorf("%w: %s[%s] is %q", errStatistics, counter, item[knotID], item[knotData])
		}
		switch id := item[knotID]; counter {
		case "request-protocol":
			c.Requests += v
			if strings.HasPrefix(id, "tcp") {
				c.RequestsTCP += v
			}
		case "server-operation":
			if id == "query" {
				c.Queries = v
			}
		case "flag-presence":
			if id == "TC" {
				c.Truncated = v
			}
		case "response-code":
			c.Rcodes[id] = v
			c.Responses += v
		}
	}
	return c, nil
}
