package guesttest

import (
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
)

// Addresses of a [Lab].
var (
	Client   = netip.MustParseAddr("198.18.0.128")
	Director = netip.MustParseAddr("198.18.0.20")
	VIP      = netip.MustParseAddr("198.18.0.101")
)

// Backend returns the address of the i-th backend, from 0 on.
func Backend(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(30 + i)}) }

// Lab is an LVS-TUN lab in network namespaces of one guest: client, director
// and backends "ns0", "ns1" … on one bridge, the VIP on the director and on a
// named IPIP device of each backend. NICs are called lan.
type Lab struct {
	t      testing.TB
	spaces map[string]netns.NsHandle
}

// NewLab builds the lab; it goes with the guest.
func NewLab(t testing.TB, backends int) *Lab {
	t.Helper()
	l := &Lab{t: t, spaces: map[string]netns.NsHandle{}}
	l.Sh("", `modprobe ipip; modprobe veth; modprobe bridge; ip link add br0 type bridge; ip link set br0 up`)
	t.Cleanup(l.remove)
	l.join("client", Client)
	l.join("director", Director)
	l.Sh("director", `ip addr add %s/32 dev lan`, VIP)
	for i := range backends {
		ns := fmt.Sprintf("ns%d", i)
		l.join(ns, Backend(i))
		l.Sh(ns, `sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 2>/dev/null || {
				echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce; }
			ip link add lb type ipip local %s remote %s; ip addr add %s/32 dev lb; ip link set lb up`, Backend(i), Director, VIP)
	}
	return l
}

func (l *Lab) remove() {
	for name, h := range l.spaces {
		_ = h.Close()
		// A namespace lives as long as a socket in it: the link goes by itself.
		l.Sh("", "ip link del p-%[1]s; ip netns del %[1]s", name)
	}
	l.Sh("", "ip link del br0")
}

// join makes a namespace with a NIC on the bridge. The MAC ends in the
// address's last byte.
func (l *Lab) join(ns string, a netip.Addr) {
	l.Sh("", `ip netns add %[1]s; ip link add p-%[1]s type veth peer name lan netns %[1]s address 02:00:00:00:00:%02[3]x; ip link set p-%[1]s master br0 up
		ip -n %[1]s link set lo up; ip -n %[1]s addr add %[2]s/24 dev lan; ip -n %[1]s link set lan up`, ns, a, a.As4()[3])
	h, err := netns.GetFromName(ns)
	if err != nil {
		l.t.Fatal(err)
	}
	l.spaces[ns] = h
}

// MAC returns the hardware address of the NIC with that address.
func MAC(a netip.Addr) string { return fmt.Sprintf("02:00:00:00:00:%02x", a.As4()[3]) }

// Sh runs a shell script in a namespace, "" = the guest's own.
func (l *Lab) Sh(ns, format string, args ...any) string {
	l.t.Helper()
	script := fmt.Sprintf(format, args...)
	argv := []string{"sh", "-ec", script}
	if ns != "" {
		argv = append([]string{"ip", "netns", "exec", ns}, argv...)
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %s: %v\n%s", ns, script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// In runs f in a namespace, on a thread of its own. Sockets that f opens stay
// in that namespace; goroutines that f starts do not.
func (l *Lab) In(ns string, f func()) {
	l.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := netns.Set(l.spaces[ns])
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		l.t.Fatal(err)
	}
}
