package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// What the name servers are given in the place of their defaults, so that a study
// compares servers and not settings: BIND's defaults (tcp-clients,
// tcp-idle-timeout and max-udp-size of BIND 9.18).
const (
	tcpClients     = 150
	tcpIdleSeconds = 30
	udpSize        = 1232
)

// lineControl has nsd or unbound carry out one command of its control program and
// returns what it says. On a Unix socket that is a line with the protocol's magic
// and the answer's text until the end (remote.c of both). The program itself would
// take an emulated guest half a second to start.
func lineControl(ctx context.Context, socket, magic, command string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c, magic+" "+command+"\n"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(c, maxControl))
	if err != nil {
		return "", err
	}
	if reason, refused := strings.CutPrefix(string(said), "error "); refused {
		return "", fmt.Errorf("%w: %s", errRefused, strings.TrimSpace(reason))
	}
	return string(said), nil
}

// parseNumbers reads lines of name=value, those whose values are whole numbers.
func parseNumbers(said string) (map[string]uint64, error) {
	n := map[string]uint64{}
	for line := range strings.Lines(said) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if v, err := strconv.ParseUint(value, 10, 64); err == nil {
			n[name] = v
		}
	}
	if len(n) == 0 {
		return nil, fmt.Errorf("%w: %.80q", errStatistics, said)
	}
	return n, nil
}

// rcodesOf collects the counters of responses by rcode that are not zero, and
// their sum.
func rcodesOf(n map[string]uint64, prefix string) (rcodes map[string]uint64, sum uint64) {
	rcodes = map[string]uint64{}
	for name, v := range n {
		if code, ok := strings.CutPrefix(name, prefix); ok && v > 0 {
			rcodes[code] = v
			sum += v
		}
	}
	return rcodes, sum
}
