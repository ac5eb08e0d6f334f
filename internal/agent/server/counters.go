package server

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerCounters(s *Server) {
	Handle(s, proto.Counters, readCounters)
}

func readCounters(ctx context.Context, spec proto.CountersSpec) (proto.CounterSet, error) {
	var set proto.CounterSet
	var err error
	if set.SNMP, err = readSNMP("/proc/net/snmp", "/proc/net/netstat"); err != nil {
		return set, err
	}
	if names := slices.Concat(spec.Links, spec.Tunnels); len(names) > 0 {
		set.Links = make(map[string]proto.LinkCounters, len(names))
		for _, name := range names {
			link, err := findLink(proto.LinkRef{Name: name})
			if err != nil {
				return set, err
			}
			set.Links[name] = counters(link.Attrs().Statistics)
		}
	}
	if spec.Named {
		c, err := namedStats(ctx, proto.None{})
		if err != nil {
			return set, err
		}
		set.Named = &c
	}
	return set, nil
}

func readSNMP(files ...string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		parseSNMP(f, all)
		f.Close()
	}
	return all, nil
}

// parseSNMP reads the pairs of lines of /proc/net/snmp and netstat: the first
// of a pair holds the names, the second the values. Negative values (Tcp.MaxConn
// is -1) are no counters and are left out.
func parseSNMP(r io.Reader, into map[string]uint64) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		names := strings.Fields(lines.Text())
		if !lines.Scan() {
			return
		}
		values := strings.Fields(lines.Text())
		if len(names) == 0 || len(names) != len(values) || names[0] != values[0] {
			continue
		}
		group := strings.TrimSuffix(names[0], ":")
		for i := 1; i < len(names); i++ {
			if v, err := strconv.ParseUint(values[i], 10, 64); err == nil {
				into[group+"."+names[i]] = v
			}
		}
	}
}
