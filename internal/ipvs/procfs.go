package ipvs

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// ParseConns reads /proc/net/ip_vs_conn. The table has no netlink dump
// (ip_vs_ctl.c), so this is the only way to see it. Addresses of IPv4 are eight
// hexadecimal digits in network order, those of IPv6 the full colon form; a
// tunnel may have an IPv6 client and an IPv4 destination in one row.
func ParseConns(r io.Reader) ([]proto.IPVSConn, error) {
	var out []proto.IPVSConn
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		f := strings.Fields(sc.Text())
		if len(f) == 0 || f[0] == "Pro" {
			continue
		}
		c, err := parseConn(f)
		if err != nil {
			return nil, fmt.Errorf("ip_vs_conn line %d: %w", line, err)
		}
		out = append(out, c)
	}
	return out, sc.Err()
}

func parseConn(f []string) (proto.IPVSConn, error) {
	var c proto.IPVSConn
	if len(f) < 9 {
		return c, fmt.Errorf("%d columns, want at least 9", len(f))
	}
	c.Protocol = strings.ToLower(f[0])
	for i, p := range []*netip.AddrPort{&c.Client, &c.Virtual, &c.Dest} {
		a, err := parseHexAddr(f[1+2*i])
		if err != nil {
			return c, err
		}
		port, err := strconv.ParseUint(f[2+2*i], 16, 16)
		if err != nil {
			return c, fmt.Errorf("port %q", f[2+2*i])
		}
		*p = netip.AddrPortFrom(a, uint16(port))
	}
	c.State = f[7]
	sec, err := strconv.Atoi(f[8])
	if err != nil || sec < 0 {
		return c, fmt.Errorf("seconds left %q", f[8])
	}
	c.Expires = sec
	return c, nil
}

func parseHexAddr(s string) (netip.Addr, error) {
	if strings.Contains(s, ":") {
		a, err := netip.ParseAddr(s)
		if err != nil || !a.Is6() || a.Zone() != "" {
			return netip.Addr{}, fmt.Errorf("address %q", s)
		}
		return a, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, fmt.Errorf("address %q", s)
	}
	return netip.AddrFrom4([4]byte(b)), nil
}

// ParseTotals reads /proc/net/ip_vs_stats_percpu and adds the CPUs' rows. The
// row "~" is left out: it is the estimator's sum and up to 2 s old, the CPUs'
// rows are live. All numbers are hexadecimal (ip_vs_ctl.c,
// ip_vs_stats_percpu_show).
func ParseTotals(r io.Reader) (proto.IPVSTotals, error) {
	var t proto.IPVSTotals
	cpus := 0
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		f := strings.Fields(sc.Text())
		if len(f) == 0 || f[0] == "Total" || f[0] == "CPU" || f[0] == "~" {
			if cpus > 0 {
				break // the second table holds rates
			}
			continue
		}
		v, err := hexRow(f, 6)
		if err != nil {
			return t, fmt.Errorf("ip_vs_stats_percpu line %d: %w", line, err)
		}
		t.Conns += v[1]
		t.InPackets += v[2]
		t.InBytes += v[4]
		cpus++
	}
	if err := sc.Err(); err != nil {
		return t, err
	}
	if cpus == 0 {
		return t, fmt.Errorf("ip_vs_stats_percpu: no row of a CPU")
	}
	return t, nil
}

// ParseStats reads the first row of /proc/net/ip_vs_stats: the estimator's
// totals, hexadecimal and up to 2 s old.
func ParseStats(r io.Reader) (proto.IPVSCounters, error) {
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		f := strings.Fields(sc.Text())
		if len(f) == 0 || f[0] == "Total" || f[0] == "Conns" {
			continue
		}
		v, err := hexRow(f, 5)
		if err != nil {
			return proto.IPVSCounters{}, fmt.Errorf("ip_vs_stats line %d: %w", line, err)
		}
		return proto.IPVSCounters{Conns: v[0], InPackets: v[1], OutPackets: v[2], InBytes: v[3], OutBytes: v[4]}, nil
	}
	if err := sc.Err(); err != nil {
		return proto.IPVSCounters{}, err
	}
	return proto.IPVSCounters{}, fmt.Errorf("ip_vs_stats: no row")
}

func hexRow(f []string, want int) ([]uint64, error) {
	if len(f) != want {
		return nil, fmt.Errorf("%d columns, want %d", len(f), want)
	}
	v := make([]uint64, want)
	for i, s := range f {
		n, err := strconv.ParseUint(s, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not hexadecimal", s)
		}
		v[i] = n
	}
	return v, nil
}
