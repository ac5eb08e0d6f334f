package lower

import (
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/lang"
)

// ZoneText renders a zone as a master file (RFC 1035 §5), values as they were
// declared. Every backend serves the same text; who answered is seen in
// id.server and NSID, not in the zone. The serial is fixed: a zone is compared
// by its text.
//
// The name server's name lies outside the zone and does not exist (RFC 2606).
// Inside it named demands an address for it, so that the zone would hold a
// record that nobody declared, and refuses the zone when a user's CNAME has that
// name (named-checkzone 9.18: "NS 'ns.lab.test' is a CNAME (illegal)").
func ZoneText(z lang.Zone) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ORIGIN %s.\n", z.Name)
	b.WriteString("@ 3600 IN SOA ns.invalid. hostmaster.invalid. 1 3600 600 604800 300\n")
	b.WriteString("@ 3600 IN NS ns.invalid.\n")
	for _, r := range z.Records {
		for _, v := range r.Values {
			fmt.Fprintf(&b, "%s %d IN %s %s\n", r.Name, r.TTL, r.Type, v)
		}
	}
	return b.String()
}
