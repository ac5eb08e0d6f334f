package load

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"time"
)

// queryColumns are the columns of queries.csv. Times are UTC with nanoseconds;
// latency_s to answer_ip_bytes are empty when there was no answer.
var queryColumns = []string{"n", "time", "client", "port", "vip", "protocol", "id", "name", "type", "next_hop", "outcome",
	"latency_s", "rcode", "source", "backend", "duplicates", "query_ip_bytes", "answer_ip_bytes"}

// WriteQueries writes queries.csv: one row for each query, enough to compute
// every count and time of the run again.
func WriteQueries(w io.Writer, queries []Query) error {
	out := csv.NewWriter(w)
	if err := out.Write(queryColumns); err != nil {
		return err
	}
	for _, q := range queries {
		latency, source, answer := "", "", ""
		if q.Source.IsValid() {
			latency = strconv.FormatFloat(q.Latency.Seconds(), 'f', 9, 64)
			source = q.Source.String()
			answer = strconv.Itoa(q.AnswerBytes)
		}
		if err := out.Write([]string{strconv.Itoa(q.N), q.Time.UTC().Format(time.RFC3339Nano), q.Client.String(), strconv.Itoa(int(q.Port)), q.VIP.String(),
			q.Protocol, strconv.Itoa(int(q.ID)), q.Name, q.Type, q.NextHop, string(q.Outcome),
			latency, q.Rcode, source, q.Backend, strconv.Itoa(q.Duplicates), strconv.Itoa(q.QueryBytes), answer}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// ReadQueries reads what [WriteQueries] wrote. An error names the line.
func ReadQueries(r io.Reader) ([]Query, error) {
	return readRows(r, "queries.csv", queryColumns, readQuery)
}

// readQuery reads one row.
func readQuery(row []string) (Query, error) {
	c := columns{names: queryColumns, row: row}
	q := Query{
		N: c.number(0, 1<<31-1), Time: c.time(1), Client: c.address(2), Port: uint16(c.number(3, 65535)), VIP: c.address(4),
		Protocol: c.row[5], ID: uint16(c.number(6, 65535)), Name: c.row[7], Type: c.row[8], NextHop: c.row[9], Outcome: Outcome(c.row[10]),
		Rcode: c.row[12], Backend: c.row[14], Duplicates: c.number(15, 1<<31-1), QueryBytes: c.number(16, 1<<31-1),
	}
	if !knownOutcome(q.Outcome) {
		c.fail(10, errors.New("not an outcome"))
	}
	if c.row[13] != "" {
		q.Source = c.address(13)
		q.AnswerBytes = c.number(17, 1<<31-1)
		seconds, err := strconv.ParseFloat(c.row[11], 64)
		if err != nil || !(seconds > -1e9 && seconds < 1e9) {
			c.fail(11, errors.New("not a time in seconds"))
		}
		q.Latency = time.Duration(math.Round(seconds * 1e9))
	}
	return q, c.err
}

func knownOutcome(o Outcome) bool {
	switch o {
	case OK, BadRcode, Truncated, WrongData, WrongSource, Late, Unanswered:
		return true
	}
	return false
}

// columns reads the cells of a row and keeps the first error.
type columns struct {
	names []string
	row   []string
	err   error
}

func (c *columns) fail(i int, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%s %q: %w", c.names[i], c.row[i], err)
	}
}

func (c *columns) number(i, most int) int {
	n, err := strconv.Atoi(c.row[i])
	if err == nil && (n < 0 || n > most) {
		err = errors.New("out of range")
	}
	if err != nil {
		c.fail(i, err)
	}
	return n
}

func (c *columns) address(i int) netip.Addr {
	a, err := netip.ParseAddr(c.row[i])
	if err != nil {
		c.fail(i, errors.New("not an address"))
	}
	return a
}

func (c *columns) time(i int) time.Time {
	t, err := time.Parse(time.RFC3339Nano, c.row[i])
	if err != nil {
		c.fail(i, errors.New("not a time"))
	}
	return t.UTC()
}

// maybe reads a time that need not be there.
func (c *columns) maybe(i int) time.Time {
	if c.row[i] == "" {
		return time.Time{}
	}
	return c.time(i)
}
