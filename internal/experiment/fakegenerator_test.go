package experiment

import (
	"bytes"
	"net/netip"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/load"
)

// dnsload asks as the agent's own generator does, one query a millisecond, and
// sees of each what the fake's capture shows.
func (f *fakeLab) dnsload(n addr.Noun, spec proto.DNSLoadSpec) (any, error) {
	body, ok := f.files[n.String()+spec.Path]
	if !ok {
		return nil, guestError(proto.CodeNotFound, "load.lvslab", "no query file "+spec.Path)
	}
	if f.onLoadSpec != nil {
		f.onLoadSpec(spec)
	}
	f.begin(n, proto.DNSLoad.Op, spec.StartNS)
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	var record []load.Asked
	for i, line := range lines {
		name, kind, _ := strings.Cut(line, " ")
		port := spec.Ports[i%len(spec.Ports)]
		var how fate
		if f.packet != nil {
			how = f.packet(i)
		}
		at := f.clock.Add(time.Duration(i) * time.Millisecond)
		a := load.Asked{N: i + 1, Client: spec.From, Port: port, VIP: spec.Server.Addr(), Protocol: spec.Protocol, ID: uint16(i), Name: name, Type: strings.TrimSpace(kind),
			Started: at.Add(-10 * time.Microsecond), Sent: at.Add(-10 * time.Microsecond), Result: load.TimedOut}
		if spec.Rate > 0 {
			a.Scheduled = at.Add(-30 * time.Microsecond)
		}
		answered := f.exchange(n, i, netip.AddrPortFrom(spec.From, port), spec.Server, name, a.Type) == 1
		if answered && !how.source.IsValid() {
			a.Result, a.Rcode, a.Source, a.Latency = load.Answered, "NOERROR", spec.Server.Addr(), 230*time.Microsecond
			if how.late > 0 {
				a.Result, a.Latency = load.TooLate, a.Latency+how.late
			}
		}
		record = append(record, a)
	}
	if f.record != nil {
		f.record(record)
	}
	f.clock = f.clock.Add(time.Duration(len(lines)) * time.Millisecond)
	var out bytes.Buffer
	if err := load.WriteRecord(&out, record); err != nil {
		return nil, err
	}
	return proto.DNSLoadResult{Start: f.clock, Wall: time.Duration(len(lines)) * time.Millisecond, Record: out.Bytes(), Cut: f.cutLoad}, nil
}
