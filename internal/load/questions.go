package load

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/lvslab/lvslab/internal/lang"
)

// Question is what one query asks for.
type Question struct {
	Name string // fully qualified with its final dot, lower case
	Type string // upper case, A
}

// String returns the question as a line of dnsperf's input.
func (q Question) String() string { return q.Name + " " + q.Type }

// QueryNames returns one question for each RRset of the zones, in declared
// order; an RRset declared in several records is asked for once, at its first place.
func QueryNames(zones []lang.Zone) []Question {
	var out []Question
	seen := map[Question]bool{}
	for _, z := range zones {
		for _, r := range z.Records {
			if q := question(z, r); !seen[q] {
				seen[q] = true
				out = append(out, q)
			}
		}
	}
	return out
}

func question(z lang.Zone, r lang.Record) Question {
	name := r.Name + "." + z.Name
	switch {
	case r.Name == "@" || r.Name == "":
		name = z.Name
	case strings.HasSuffix(r.Name, "."):
		name = r.Name
	}
	return Question{Name: strings.ToLower(dns.Fqdn(name)), Type: strings.ToUpper(r.Type)}
}

// QueryFile returns dnsperf's input: n lines, the questions cycled. Without
// questions it is empty.
func QueryFile(questions []Question, n int) []byte {
	var b bytes.Buffer
	for i := 0; i < n && len(questions) > 0; i++ {
		b.WriteString(questions[i%len(questions)].String())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Expected is what the zones hold: the data of each RRset in presentation
// form, sorted.
type Expected map[Question][]string

// ExpectedAnswers returns the data that right answers carry.
func ExpectedAnswers(zones []lang.Zone) (Expected, error) {
	out := Expected{}
	for _, z := range zones {
		for i, r := range z.Records {
			q := question(z, r)
			for _, v := range r.Values {
				rr, err := record(z, q, r.TTL, v)
				if err != nil {
					return nil, fmt.Errorf("zone %s, record %d (%s): value %q: %w", z.Name, i, r.Name, v, err)
				}
				out[q] = append(out[q], data(rr))
			}
		}
	}
	for q, list := range out {
		slices.Sort(list)
		out[q] = slices.Compact(list)
	}
	return out, nil
}

// record reads a value as a line of the zone's master file: names without a
// final dot are relative to the zone.
func record(z lang.Zone, q Question, ttl int, value string) (dns.RR, error) {
	p := dns.NewZoneParser(strings.NewReader(fmt.Sprintf("%s %d IN %s %s\n", q.Name, ttl, q.Type, value)), dns.Fqdn(z.Name), "")
	rr, _ := p.Next()
	if err := p.Err(); err != nil {
		return nil, err
	}
	if rr == nil {
		return nil, errors.New("it is empty")
	}
	return rr, nil
}

// data returns a record's data in presentation form. Names inside it are lower
// case, since a server may answer in another case; texts are left alone.
func data(rr dns.RR) string {
	s := strings.TrimPrefix(rr.String(), rr.Header().String())
	switch rr.Header().Rrtype {
	case dns.TypeTXT, dns.TypeSPF, dns.TypeCAA, dns.TypeNAPTR, dns.TypeURI:
		return s
	}
	return strings.ToLower(s)
}

// holds says whether an answer carries the expected data and no other of that
// name and type. A delegation is answered by a referral, whose NS records stand
// in the authority section.
func (e Expected) holds(q Question, m *dns.Msg) bool {
	want, ok := e[q]
	if !ok {
		return false
	}
	records := m.Answer
	if q.Type == "NS" && len(records) == 0 {
		records = m.Ns
	}
	var got []string
	for _, rr := range records {
		if h := rr.Header(); strings.EqualFold(h.Name, q.Name) && dns.Type(h.Rrtype).String() == q.Type {
			got = append(got, data(rr))
		}
	}
	slices.Sort(got)
	return slices.Equal(want, slices.Compact(got))
}
