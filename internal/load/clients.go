package load

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client is one client of a run that has several.
type Client struct {
	Name      string // client.c[0]
	Addresses []netip.Addr
	// StartedS is how long after the first packet of the first client its own first
	// came, on one clock, seconds; nil when it was not seen.
	StartedS *float64
}

// ClientRow is a client's part of a run: what [Summarise] says of its queries alone.
type ClientRow struct {
	Client
	Summary
}

// PerClient shares the queries of a run out between its clients by their source
// addresses. A query from another address is in no row.
func PerClient(queries []Query, clients []Client, timeout time.Duration) []ClientRow {
	of := map[netip.Addr]int{}
	parts := make([][]Query, len(clients))
	for i, c := range clients {
		for _, a := range c.Addresses {
			of[a] = i
		}
	}
	for _, q := range queries {
		if i, ok := of[q.Client]; ok {
			parts[i] = append(parts[i], q)
		}
	}
	rows := make([]ClientRow, len(clients))
	for i, c := range clients {
		rows[i] = ClientRow{c, Summarise(parts[i], timeout)}
	}
	return rows
}

var clientColumns = []string{"client", "addresses", "started_s", "queries_sent", "answers_ok", "answers_not_ok", "unanswered",
	"batch_s", "resolved_s", "latency_p50_s", "source_ports", "backends"}

// WriteClients writes clients.csv: one row a client.
func WriteClients(w io.Writer, rows []ClientRow) error {
	out := csv.NewWriter(w)
	if err := out.Write(clientColumns); err != nil {
		return err
	}
	for _, r := range rows {
		if err := out.Write(r.cells()); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (r ClientRow) cells() []string {
	seconds := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'f', 6, 64)
	}
	addresses := make([]string, len(r.Addresses))
	for i, a := range r.Addresses {
		addresses[i] = a.String()
	}
	var backends []string
	for b, n := range r.Backends {
		backends = append(backends, fmt.Sprintf("%s=%d", b, n))
	}
	slices.Sort(backends)
	return []string{r.Name, strings.Join(addresses, ";"), seconds(r.StartedS), strconv.Itoa(r.Sent), strconv.Itoa(r.AnswersOK),
		strconv.Itoa(r.Sent - r.AnswersOK - r.Unanswered), strconv.Itoa(r.Unanswered), seconds(r.BatchS), seconds(r.ResolvedS),
		seconds(r.LatencyP50), strconv.Itoa(r.SourcePorts), strings.Join(backends, ";")}
}

// ReadClients reads clients.csv: the clients, and the cells of each row as they were
// written, to be compared with what follows from the queries.
func ReadClients(r io.Reader) (clients []Client, cells [][]string, err error) {
	type line struct {
		client Client
		cells  []string
	}
	lines, err := readRows(r, "clients.csv", clientColumns, func(row []string) (line, error) {
		l := line{Client{Name: row[0]}, slices.Clone(row)}
		if row[0] == "" || row[1] == "" {
			return l, errors.New("a client without name or address")
		}
		for _, text := range strings.Split(row[1], ";") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return l, fmt.Errorf("addresses %q: not an address", row[1])
			}
			l.client.Addresses = append(l.client.Addresses, a)
		}
		return l, nil
	})
	for _, l := range lines {
		clients, cells = append(clients, l.client), append(cells, l.cells)
	}
	return clients, cells, err
}

// Differs is the first column in which a row is not as it was written, and what
// it is; "" when all are.
func (r ClientRow) Differs(cells []string) (column, want string) {
	for i, c := range r.cells() {
		if i >= len(cells) || cells[i] != c {
			return clientColumns[i], c
		}
	}
	return "", ""
}
