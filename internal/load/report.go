package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Report is what dnsperf says about itself. It stands beside the outcomes found
// in a capture, never instead of them: any rcode from any source counts as
// completed, and the run time ends at the last answer and not at the last
// time-out.
type Report struct {
	Version string // 2.10.0
	// Updates is true when dnsperf sent dynamic updates (-u).
	Updates     bool
	Sent        int
	Completed   int
	Lost        int
	Interrupted int
	Rcodes      map[string]int
	// RequestBytes and ResponseBytes are average DNS message sizes.
	RequestBytes, ResponseBytes int
	RunTime                     float64 // seconds
	QPS                         float64
	// Latency is nil when nothing completed, and when dnsperf says that its deviation
	// is no number: 2.10 can lose when it sent a query (its issue 222).
	Latency *ReportLatency
	// Reason is why it stopped: "end of file", "time limit" or "interruption".
	Reason string
	// Reconnections of TCP; from 2.14 on attempts beyond the successful ones.
	Reconnections int
}

// ReportLatency is in seconds. StdDev is 0 when there was one answer only.
type ReportLatency struct{ Avg, Min, Max, StdDev float64 }

// ErrNoReport says that the output holds no complete final report, for
// instance because dnsperf was killed or found no data.
var ErrNoReport = errors.New("no dnsperf report")

// ErrForeign says that another program wrote the output, or a version of dnsperf
// whose words are not known: the same label may mean something else there.
var ErrForeign = errors.New("not a report that can be read")

// lastMinor is the newest dnsperf 2.x whose report was compared with this reader.
const lastMinor = 14

// ParseReport reads the output of dnsperf 2.0 to 2.14 with UDP or TCP. The
// labels have not changed over these versions; blocks that came later (interval
// statistics, histograms) are passed over. Output that ends before its report does
// is [ErrNoReport], that of others [ErrForeign].
func ParseReport(stdout string) (Report, error) {
	p := reportParser{r: Report{Rcodes: map[string]int{}}}
	for _, line := range strings.Split(stdout, "\n") {
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return Report{}, err
		}
	}
	switch {
	case p.r.Version != "" && !knownVersion(p.r.Version):
		return Report{}, fmt.Errorf("%w: dnsperf %s; 2.0 to 2.%d are known", ErrForeign, p.r.Version, lastMinor)
	case !p.statistics || p.seen != seenAll:
		return Report{}, fmt.Errorf("%w: %s", ErrNoReport, lastLine(stdout))
	case p.r.Version == "":
		return Report{}, fmt.Errorf("%w: it does not say the version of dnsperf", ErrForeign)
	}
	return p.r, nil
}

func knownVersion(v string) bool {
	major, rest, _ := strings.Cut(v, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return err == nil && major == "2" && n >= 0 && n <= lastMinor
}

// The lines without which a report is not complete.
const (
	seenSent = 1 << iota
	seenCompleted
	seenLost
	seenRunTime
	seenQPS
	seenAll = 1<<iota - 1
)

type reportParser struct {
	r Report
	// The blocks: the final one, those of -S, and that of TCP connections.
	statistics, interval, connections bool
	seen                              int
}

func (p *reportParser) line(s string) error {
	switch {
	case strings.HasPrefix(s, "Version ") || strings.HasPrefix(s, "Nominum Version "):
		p.r.Version = s[strings.LastIndexByte(s, ' ')+1:]
		return nil
	case strings.HasPrefix(s, "[Status] Testing complete ("):
		p.r.Reason = strings.TrimSuffix(strings.TrimPrefix(s, "[Status] Testing complete ("), ")")
		return nil
	case s == "Statistics:":
		p.statistics, p.interval, p.connections = true, false, false
		return nil
	case s == "Interval Statistics:" || s == "Connection Statistics:":
		// Their lines have the labels of the final block.
		p.interval, p.connections = s[0] == 'I', s[0] == 'C'
		return nil
	}
	label, rest, ok := strings.Cut(s, ":")
	if !ok || !p.statistics || p.interval {
		return nil
	}
	read := p.field
	if p.connections {
		read = p.connection
	}
	if err := read(label, strings.Fields(rest)); err != nil {
		return fmt.Errorf("dnsperf's %q: %w", s, err)
	}
	return nil
}

func (p *reportParser) field(label string, f []string) (err error) {
	if rest, ok := strings.CutPrefix(label, "Updates "); ok {
		p.r.Updates = true
		label = "Queries " + rest
	}
	switch label {
	case "Queries sent":
		p.r.Sent, err = p.count(f, seenSent)
	case "Queries completed":
		p.r.Completed, err = p.count(f, seenCompleted)
	case "Queries lost":
		p.r.Lost, err = p.count(f, seenLost)
	case "Queries interrupted":
		p.r.Interrupted, err = p.count(f, 0)
	case "Response codes":
		err = p.rcodes(f)
	case "Average packet size":
		if len(f) == 4 {
			p.r.RequestBytes, err = strconv.Atoi(strings.TrimSuffix(f[1], ","))
			if err == nil {
				p.r.ResponseBytes, err = strconv.Atoi(f[3])
			}
		}
	case "Run time (s)":
		p.r.RunTime, err = p.number(f, seenRunTime)
	case "Queries per second":
		p.r.QPS, err = p.number(f, seenQPS)
	case "Average Latency (s)":
		err = p.latency(f)
	case "Latency StdDev (s)":
		err = p.deviation(f)
	}
	return err
}

// connection reads "Reconnections: N" of 2.5 to 2.12 and "Connection attempts:
// N (M successful, P%)" of 2.14.
func (p *reportParser) connection(label string, f []string) (err error) {
	switch {
	case label == "Reconnections":
		p.r.Reconnections, err = p.count(f, 0)
	case label == "Connection attempts" && len(f) == 4:
		var made int
		if made, err = strconv.Atoi(strings.TrimPrefix(f[1], "(")); err == nil {
			p.r.Reconnections, err = p.count(f, 0)
			p.r.Reconnections -= made
		}
	}
	return err
}

func (p *reportParser) count(f []string, mark int) (int, error) {
	if len(f) == 0 {
		return 0, errors.New("no number")
	}
	n, err := strconv.Atoi(f[0])
	if err == nil && n < 0 {
		err = fmt.Errorf("%d", n)
	}
	p.seen |= mark
	return n, err
}

func (p *reportParser) number(f []string, mark int) (float64, error) {
	if len(f) == 0 {
		return 0, errors.New("no number")
	}
	v, err := strconv.ParseFloat(f[0], 64)
	p.seen |= mark
	return v, err
}

// rcodes reads "NOERROR 90 (90.00%), SERVFAIL 10 (10.00%)"; empty when nothing completed.
func (p *reportParser) rcodes(f []string) error {
	if len(f)%3 != 0 {
		return errors.New("want NAME N (P%) of each")
	}
	for ; len(f) > 0; f = f[3:] {
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return err
		}
		p.r.Rcodes[f[0]] = n
	}
	return nil
}

// latency reads "A (min B, max C)". Without an answer dnsperf prints zeros.
func (p *reportParser) latency(f []string) error {
	if len(f) != 5 || p.r.Completed == 0 {
		return nil
	}
	var l ReportLatency
	for i, to := range map[int]*float64{0: &l.Avg, 2: &l.Min, 4: &l.Max} {
		v, err := strconv.ParseFloat(strings.TrimRight(f[i], ",)"), 64)
		if err != nil {
			return err
		}
		*to = v
	}
	p.r.Latency = &l
	return nil
}

// deviation reads what C prints, for which -nan is a number, too.
func (p *reportParser) deviation(f []string) error {
	if p.r.Latency == nil {
		return nil
	}
	if len(f) > 0 && strings.TrimPrefix(f[0], "-") == "nan" {
		p.r.Latency = nil
		return nil
	}
	var err error
	p.r.Latency.StdDev, err = p.number(f, 0)
	return err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return "it printed nothing"
	}
	return "its last line is " + strconv.Quote(s[strings.LastIndexByte(s, '\n')+1:])
}
