package load

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Result says what the generator itself saw of a query. It is a second witness:
// outcomes come from the capture.
type Result string

// The results.
const (
	Answered Result = "answered" // an answer in time, from the server, to the question
	TooLate  Result = "late"     // an answer after the time-out
	TimedOut Result = "timeout"  // no answer
	Closed   Result = "closed"   // the connection ended before the answer
	Refused  Result = "refused"  // the connection was refused
	Failed   Result = "failed"   // it could not be sent
	Unsent   Result = "unsent"   // the load was cut before its turn
)

var results = []Result{Answered, TooLate, TimedOut, Closed, Refused, Failed, Unsent}

// Asked is one query as the generator saw it. Times are of the client's clock,
// zero where there was none.
type Asked struct {
	N        int // from 1, in the order of the list
	Client   netip.Addr
	Port     uint16
	VIP      netip.Addr
	Protocol string
	ID       uint16
	Name     string // with final dot, lower case
	Type     string

	Scheduled time.Time // when it was due; zero when nothing paces the load
	Started   time.Time // the packet, or the first one of a connection of its own
	Sent      time.Time // the query itself

	Result Result
	// What follows is of the first answer.
	Latency    time.Duration // since Sent
	Rcode      string
	Truncated  bool
	Source     netip.Addr
	Backend    string // node by the answer's MAC, or the MAC; "" when it was not seen
	Duplicates int    // further answers
}

var recordColumns = []string{"n", "client", "port", "vip", "protocol", "id", "name", "type", "scheduled", "started", "sent",
	"result", "latency_s", "rcode", "truncated", "source", "backend", "duplicates"}

// WriteRecord writes generator.csv: one row a query.
func WriteRecord(w io.Writer, list []Asked) error {
	out := csv.NewWriter(w)
	if err := out.Write(recordColumns); err != nil {
		return err
	}
	for _, a := range list {
		client, latency, truncated, source := "", "", "", ""
		if a.Client.IsValid() {
			client = a.Client.String()
		}
		if a.Source.IsValid() {
			latency, truncated, source = strconv.FormatFloat(a.Latency.Seconds(), 'f', 9, 64), strconv.FormatBool(a.Truncated), a.Source.String()
		}
		if err := out.Write([]string{strconv.Itoa(a.N), client, strconv.Itoa(int(a.Port)), a.VIP.String(), a.Protocol, strconv.Itoa(int(a.ID)), a.Name, a.Type,
			stamp(a.Scheduled), stamp(a.Started), stamp(a.Sent), string(a.Result), latency, a.Rcode, truncated, source, a.Backend, strconv.Itoa(a.Duplicates)}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// ReadRecord reads what [WriteRecord] wrote. An error names the line.
func ReadRecord(r io.Reader) ([]Asked, error) {
	return readRows(r, "generator.csv", recordColumns, readAsked)
}

func readAsked(row []string) (Asked, error) {
	c := columns{names: recordColumns, row: row}
	a := Asked{
		N: c.number(0, 1<<31-1), Port: uint16(c.number(2, 65535)), VIP: c.address(3), Protocol: c.row[4], ID: uint16(c.number(5, 65535)),
		Name: c.row[6], Type: c.row[7], Scheduled: c.maybe(8), Started: c.maybe(9), Sent: c.maybe(10), Result: Result(c.row[11]),
		Rcode: c.row[13], Backend: c.row[16], Duplicates: c.number(17, 1<<31-1),
	}
	if c.row[1] != "" {
		a.Client = c.address(1)
	}
	if !slices.Contains(results, a.Result) {
		c.fail(11, errors.New("not a result"))
	}
	if c.row[15] != "" {
		a.Source = c.address(15)
		seconds, err := strconv.ParseFloat(c.row[12], 64)
		if err != nil || !(seconds > -1e9 && seconds < 1e9) {
			c.fail(12, errors.New("not a time in seconds"))
		}
		a.Latency = time.Duration(math.Round(seconds * 1e9))
		if a.Truncated, err = strconv.ParseBool(c.row[14]); err != nil {
			c.fail(14, errors.New("neither true nor false"))
		}
	}
	return a, c.err
}
