package lower

import (
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/lang"
)

// zoneTTL is the TTL of the zone's own records, seconds. Nobody caches in a lab.
const zoneTTL = 3600

// ZoneText renders a zone as a master file (RFC 1035 §5). The serial is fixed:
// a zone is compared by its text. Every backend serves the same text; who
// answered is seen in id.server and NSID, not in the zone.
func ZoneText(z lang.Zone) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ORIGIN %s.\n$TTL %d\n", z.Name, zoneTTL)
	b.WriteString("@ IN SOA ns hostmaster 1 3600 600 86400 3600\n")
	if !declares(z, "@", "NS") {
		b.WriteString("@ IN NS ns\n")
	}
	if !declares(z, "ns", "A") && !declares(z, "ns", "AAAA") && !declares(z, "ns", "CNAME") {
		b.WriteString("ns IN A 192.0.2.53\n") // TEST-NET-1, RFC 5737: named wants an address
	}
	for _, r := range z.Records {
		for _, v := range r.Values {
			if r.Type == "TXT" {
				v = quoted(v)
			}
			fmt.Fprintf(&b, "%s %d IN %s %s\n", r.Name, r.TTL, r.Type, v)
		}
	}
	return b.String()
}

func declares(z lang.Zone, name, typ string) bool {
	for _, r := range z.Records {
		if r.Name == name && r.Type == typ {
			return true
		}
	}
	return false
}

// quoted writes a text as one character string unless the user wrote quotes.
func quoted(s string) string {
	if strings.HasPrefix(s, `"`) {
		return s
	}
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}
