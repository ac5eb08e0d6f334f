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

	"github.com/gopacket/gopacket/layers"
)

// Segment is one packet of TCP on its way from a client to a VIP, as far as it
// moves the state of a connection.
type Segment struct {
	N           int       // from 1, in order of sending
	Time        time.Time // of the capture, on the client's clock
	Client, VIP netip.AddrPort
	// Flags are those of syn, fin, rst and ack that are set, with commas; "none"
	// without any of them.
	Flags string
}

// SegmentsFile is the file in raw/<run_id>/ that holds them.
const SegmentsFile = "packets.csv"

// flagNames are the flags of TCP that decide about a connection's state.
var flagNames = []string{"syn", "fin", "rst", "ack"}

func flagsText(t *layers.TCP) string {
	var out []string
	for i, set := range []bool{t.SYN, t.FIN, t.RST, t.ACK} {
		if set {
			out = append(out, flagNames[i])
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

// segmentColumns are the columns of packets.csv.
var segmentColumns = []string{"n", "time", "client", "virtual", "flags"}

// WriteSegments writes packets.csv: one row for each segment.
func WriteSegments(w io.Writer, segments []Segment) error {
	out := csv.NewWriter(w)
	if err := out.Write(segmentColumns); err != nil {
		return err
	}
	for _, s := range segments {
		if err := out.Write([]string{strconv.Itoa(s.N), s.Time.UTC().Format(time.RFC3339Nano), s.Client.String(), s.VIP.String(), s.Flags}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// ReadSegments reads what [WriteSegments] wrote. An error names the line.
func ReadSegments(r io.Reader) ([]Segment, error) {
	return readRows(r, "packets.csv", segmentColumns, readSegment)
}

func readSegment(row []string) (Segment, error) {
	s := Segment{Flags: strings.Clone(row[4])}
	var errs [4]error
	s.N, errs[0] = strconv.Atoi(row[0])
	s.Time, errs[1] = time.Parse(time.RFC3339Nano, row[1])
	s.Client, errs[2] = netip.ParseAddrPort(row[2])
	s.VIP, errs[3] = netip.ParseAddrPort(row[3])
	s.Time = s.Time.UTC()
	for f := range strings.SplitSeq(s.Flags, ",") {
		if s.Flags != "none" && !slices.Contains(flagNames, f) {
			return s, fmt.Errorf("flags %q: not flags of TCP", s.Flags)
		}
	}
	return s, errors.Join(errs[:]...)
}
