package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Where named lives in the guest. The statistics channel is on loopback only.
const (
	namedDir      = "/run/named"
	namedConfFile = "named.conf"
	namedLogFile  = FileRoot + "/named.log"
	namedStatsAt  = "127.0.0.1:8053"
)

// namedFiles returns the text of named.conf and of each zone's file, by path
// relative to the directory.
func namedFiles(spec proto.NamedSpec, key controlKey) map[string]string {
	files := map[string]string{namedConfFile: namedConf(spec, key)}
	for _, z := range spec.Zones {
		files[zoneFile(z.Name)] = z.Text
	}
	return files
}

func zoneFile(zone string) string { return "zones/" + url.PathEscape(zone) + ".zone" }

// namedConf is an authoritative server and nothing else: without
// "recursion no" and "dnssec-validation no" it would try to prime the root.
// The cache's hash table is sized by its limit, so the limit is small. IPv6 is
// left out unless asked for: addresses that are still tentative can't be bound.
// Names of hosts may be anything: a lab's records are not for the Internet.
func namedConf(spec proto.NamedSpec, key controlKey) string {
	v6 := "none"
	if listensV6(spec) {
		v6 = "any"
	}
	id := "server-id hostname;"
	if spec.ServerID != byHostname {
		id = fmt.Sprintf("hostname %[1]s;\n\tserver-id %[1]s;", quoteConf(spec.ServerID))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `options {
	directory "%s";
	pid-file none;
	session-keyfile none;
	listen-on { any; };
	listen-on-v6 { %s; };
	automatic-interface-scan yes;
	interface-interval 0;
	recursion no;
	dnssec-validation no;
	empty-zones-enable no;
	allow-query { any; };
	allow-transfer { none; };
	notify no;
	check-names primary ignore;
	max-cache-size 2m;
	allow-new-zones yes;
	lmdb-mapsize 1m;
	version none;
	%s
};
`, namedDir, v6, id)
	control := netip.MustParseAddrPort(namedControlAt)
	fmt.Fprintf(&b, "key agent { algorithm hmac-sha256; secret \"%s\"; };\ncontrols { inet %s port %d allow { %s; } keys { agent; }; };\n",
		key, control.Addr(), control.Port(), control.Addr())
	at := netip.MustParseAddrPort(namedStatsAt)
	fmt.Fprintf(&b, "statistics-channels { inet %s port %d allow { %s; }; };\n", at.Addr(), at.Port(), at.Addr())
	for _, z := range spec.Zones {
		fmt.Fprintf(&b, "zone %s %s;\n", quoteConf(z.Name), zoneConf(z.Name))
	}
	return b.String()
}

// zoneConf is a zone's block in named.conf and in the command that adds it.
func zoneConf(zone string) string {
	return fmt.Sprintf("{ type primary; file %s; }", quoteConf(zoneFile(zone)))
}

func listensV6(spec proto.NamedSpec) bool {
	return slices.ContainsFunc(spec.Listen, func(a netip.Addr) bool { return a.Is6() })
}

// quoteConf quotes for named.conf, where a backslash matters before a quote only.
func quoteConf(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// What named says about a zone: loaded, or not.
const (
	zoneLoaded  = "loaded serial"
	zoneRefused = "not loaded due to errors"
)

// zoneLine is how a line of named's log about a zone begins.
func zoneLine(zone string) string { return "zone " + zone + "/IN: " }

// zoneProblem is a zone that named refused to load.
type zoneProblem struct {
	zone   string
	reason string
}

// zoneProblems finds refused zones in lines of named's log:
//
//	dns_rdata_fromtext: zones/lab.test.zone:5: near '1.2.3': bad dotted quad
//	zone lab.test/IN: loading from master file zones/lab.test.zone failed: bad dotted quad
//	zone lab.test/IN: not loaded due to errors.
func zoneProblems(lines []string, spec proto.NamedSpec) []zoneProblem {
	var problems []zoneProblem
	for _, z := range spec.Zones {
		name, file := zoneLine(z.Name), zoneFile(z.Name)
		refused, place, reason := false, "", ""
		for _, line := range lines {
			if i := strings.Index(line, file+":"); i >= 0 && place == "" {
				place = strings.TrimPrefix(line[i:], "zones/")
			}
			text, about := strings.CutPrefix(line, name)
			switch {
			case !about:
			case strings.HasPrefix(text, zoneRefused):
				refused = true
			case reason == "" && !strings.HasPrefix(text, zoneLoaded):
				reason = text
			}
		}
		if refused {
			problems = append(problems, zoneProblem{z.Name, withSource(firstOf(place, reason, zoneRefused), z)})
		}
	}
	return problems
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// withSource adds the line of the zone's text that a message names.
func withSource(message string, z proto.ZoneFile) string {
	var number int
	rest := strings.TrimPrefix(message, strings.TrimPrefix(zoneFile(z.Name), "zones/")+":")
	if _, err := fmt.Sscanf(rest, "%d:", &number); err != nil {
		return message
	}
	lines := strings.Split(z.Text, "\n")
	if number < 1 || number > len(lines) {
		return message
	}
	return fmt.Sprintf("%s (line %d: %s)", message, number, strings.TrimSpace(lines[number-1]))
}
