package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

const statsWithin = 10 * time.Second

// namedStats asks named's statistics channel. A request of HTTP/1.0 by hand
// saves the agent net/http: 2 MB of program and its start-up time.
func namedStats(ctx context.Context, _ proto.None) (proto.NamedCounters, error) {
	ctx, cancel := context.WithTimeout(ctx, statsWithin)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", namedStatsAt)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return proto.NamedCounters{}, fail(proto.CodeNotFound, "named", "is not running")
	}
	if err != nil {
		return proto.NamedCounters{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, "GET /json/v1/server HTTP/1.0\r\n\r\n"); err != nil {
		return proto.NamedCounters{}, err
	}
	body, err := httpBody(bufio.NewReader(conn))
	if err != nil {
		return proto.NamedCounters{}, err
	}
	c, err := parseNamedStats(body)
	if err != nil {
		return c, err
	}
	snmp, err := readSNMP("/proc/net/snmp")
	c.UDPRcvErrors = snmp["Udp.RcvbufErrors"]
	return c, err
}

// httpBody returns what follows the headers of a successful answer.
func httpBody(r *bufio.Reader) ([]byte, error) {
	all, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	head, body, ok := bytes.Cut(all, []byte("\r\n\r\n"))
	status, _, _ := strings.Cut(string(head), "\r\n")
	if !ok || !strings.Contains(status, " 200 ") {
		return nil, fail(proto.CodeFailed, "named", "statistics channel: %q", status)
	}
	return body, nil
}

// parseNamedStats reads the JSON of BIND 9.18's /json/v1/server. Counters that
// are zero are not in it.
func parseNamedStats(body []byte) (proto.NamedCounters, error) {
	var doc struct {
		Boot    string            `json:"boot-time"`
		Opcodes map[string]uint64 `json:"opcodes"`
		Rcodes  map[string]uint64 `json:"rcodes"`
		Stats   map[string]uint64 `json:"nsstats"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return proto.NamedCounters{}, fail(proto.CodeFailed, "named", "statistics: %v", err)
	}
	c := proto.NamedCounters{
		Requests: doc.Stats["Requestv4"] + doc.Stats["Requestv6"], RequestsTCP: doc.Stats["ReqTCP"],
		Responses: doc.Stats["Response"], Truncated: doc.Stats["TruncatedResp"],
		Queries: doc.Opcodes["QUERY"], Rcodes: map[string]uint64{},
		Started: doc.Boot,
	}
	for name, v := range doc.Rcodes {
		if v > 0 {
			c.Rcodes[name] = v
		}
	}
	return c, nil
}
