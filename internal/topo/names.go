package topo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lvslab/lvslab/internal/addr"
)

// ifNameMax is the longest interface name: IFNAMSIZ − 1 (linux/if.h).
const ifNameMax = 15

// hostNameMax keeps host names within one DNS label.
const hostNameMax = 63

// namespace is the UUID namespace of lvslab's own version 5 UUIDs; any fixed value does.
var namespace = uuid.MustParse("6f1c6a52-6b1e-5d5c-9a0b-1d6c76736c62")

// reserved are names that a guest's kernel gives itself, or that mean
// something in /proc/sys/net/ipv4/conf.
var reserved = regexp.MustCompile(`^(lo|all|default|eth[0-9]+|tunl0|gre0|gretap0|erspan0|ip6tnl0|ip6gre0|sit0|ip_vti0|ip6_vti0|dummy0|bond0)$`)

// digest is the hex SHA-256 of the parts, which are kept apart by zero bytes.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// id is a version 5 UUID of lineage and address.
func id(lineage, what string) string {
	return uuid.NewSHA1(uuid.NewSHA1(namespace, []byte(lineage)), []byte(what)).String()
}

// mac is a locally administered unicast address of lineage and NIC. The first
// octet is 02: libvirt wants fe for its side of the cable and refuses it for ours.
func mac(lineage, what string, try int) string {
	d := digest("mac", lineage, what, strconv.Itoa(try))
	raw, err := hex.DecodeString(d[:10])
	if err != nil {
		panic(err) // digest is hex
	}
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", raw[0], raw[1], raw[2], raw[3], raw[4])
}

// Tag is the part of host-visible names that tells one lab's things from
// another's: 8 hex digits of the lineage.
func Tag(lineage string) string { return digest("tag", lineage)[:8] }

// path is slug with the labels and keys of the modules before it: site-0-ns-0.
func path(n addr.Noun) string {
	var steps []string
	for _, call := range append(n.Module.Calls(), n) {
		steps = append(steps, slug(call))
	}
	return strings.Join(steps, "-")
}

// slug writes label and key with letters, digits and dashes: ns-0.
func slug(n addr.Noun) string {
	s := n.Label
	if i, ok := n.Key.AsIndex(); ok {
		s += "-" + strconv.Itoa(i)
	}
	if k, ok := n.Key.AsName(); ok {
		s += "-" + k
	}
	return plain(s)
}

func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	return b.String()
}

// short brings a name down to max characters; the end becomes 4 hex digits of
// the whole, so that long names stay apart.
func short(name string, max int) string {
	if len(name) <= max {
		return name
	}
	return strings.TrimRight(name[:max-5], "-_") + "-" + digest("short", name)[:4]
}

// device makes an interface name out of a label, unique among used.
func device(label string, used map[string]bool) string {
	name := label
	if reserved.MatchString(name) {
		name = "n-" + name
	}
	name = short(name, ifNameMax)
	for i := 2; used[name]; i++ {
		name = short(fmt.Sprintf("%s-%d", label, i), ifNameMax)
	}
	used[name] = true
	return name
}

// host makes a host name, unique among used: ns-0, or backend-ns-0 when
// another kind has that name.
func host(n addr.Noun, used map[string]bool) string {
	base := strings.ToLower(strings.ReplaceAll(path(n), "_", "-"))
	name := strings.Trim(short(base, hostNameMax), "-")
	if used[name] || name == "localhost" {
		name = strings.Trim(short(string(n.Kind)+"-"+base, hostNameMax), "-")
	}
	for i := 2; used[name]; i++ {
		name = strings.Trim(short(fmt.Sprintf("%s-%s-%d", n.Kind, base, i), hostNameMax), "-")
	}
	used[name] = true
	return name
}

// HostNames returns a host name for each machine of a lab, as they call themselves:
// backend.ns[0] is ns-0.
func HostNames(machines []addr.Noun) map[addr.Noun]string {
	out, used := map[addr.Noun]string{}, map[string]bool{}
	for _, n := range machines {
		out[n] = host(n, used)
	}
	return out
}

// endsInIndex matches labels that look like an instance of another label:
// backend "ns-0" beside backend.ns[0].
var endsInIndex = regexp.MustCompile(`-[0-9]+$`)

// libvirtName names a domain or network: lvslab-1a2b3c4d-backend-ns-0. Where
// the plain form could be another noun's too, or is long, a digest of the
// address stands behind it.
func libvirtName(lineage string, n addr.Noun) string {
	s := string(n.Kind) + "-" + path(n)
	_, named := n.Key.AsName()
	if named || n.Module != "" || len(s) > 40 || n.Key.IsNone() && endsInIndex.MatchString(n.Label) {
		s = short(s, 33) + "-" + digest("noun", n.String())[:6]
	}
	return "lvslab-" + Tag(lineage) + "-" + s
}

// bridge names a network's bridge on the host: unique by lineage and network.
func bridge(lineage string, n addr.Noun) string {
	return "lv" + digest("bridge", lineage, n.String())[:12]
}
