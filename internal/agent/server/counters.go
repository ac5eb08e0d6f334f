package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerCounters(s *Server) {
	Handle(s, proto.Counters, func(ctx context.Context, spec proto.CountersSpec) (proto.CounterSet, error) {
		set, err := s.readCounters(ctx, spec)
		if id := s.identity(); id != nil {
			set.Boot = id.bootID
		}
		return set, err
	})
}

func (s *Server) readCounters(ctx context.Context, spec proto.CountersSpec) (proto.CounterSet, error) {
	set := proto.CounterSet{LongBits: strconv.IntSize, Clock: readClock()}
	var err error
	if set.SNMP, err = readSNMP("/proc/net/snmp", "/proc/net/netstat"); err != nil {
		return set, err
	}
	if err = addSNMP6(set.SNMP); err != nil {
		return set, err
	}
	if names := slices.Concat(spec.Links, spec.Tunnels); len(names) > 0 {
		set.Links = make(map[string]proto.LinkCounters, len(names))
		for _, name := range names {
			link, err := findLink(proto.LinkRef{Name: name})
			if err != nil {
				return set, err
			}
			c := counters(link.Attrs().Statistics)
			c.Index = link.Attrs().Index
			set.Links[name] = c
		}
	}
	if spec.Named {
		c, err := s.nameStats(ctx, proto.None{})
		if err != nil {
			return set, err
		}
		set.Named = &c
	}
	return set, nil
}

// clockReadings is how often the clocks are compared: the narrowest pair of
// readings counts, because the guest may be held up between the two.
const clockReadings = 8

// readClock compares the two clocks; nil when the kernel has none.
func readClock() *proto.ClockReading {
	var best *proto.ClockReading
	for range clockReadings {
		var before, real, after unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil || unix.ClockGettime(unix.CLOCK_REALTIME, &real) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return nil
		}
		half := (after.Nano() - before.Nano()) / 2
		if best == nil || half < best.WithinNS {
			best = &proto.ClockReading{OffsetNS: real.Nano() - before.Nano() - half, WithinNS: half}
		}
	}
	return best
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

// addSNMP6 adds the counters of IPv6; a kernel without it has no such file.
func addSNMP6(into map[string]uint64) error {
	f, err := os.Open("/proc/net/snmp6")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	parseSNMP6(f, into)
	return nil
}

// parseSNMP6 reads /proc/net/snmp6, a name and a value a line, into the form of the
// other file: Ip6InReceives becomes Ip6.InReceives. The counts of each ICMPv6 type are
// left out: they are many, and their sum is there.
func parseSNMP6(r io.Reader, into map[string]uint64) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 2 || strings.Contains(words[0], "Type") {
			continue
		}
		for _, group := range []string{"Ip6", "Icmp6"} {
			name, ours := strings.CutPrefix(words[0], group)
			if v, err := strconv.ParseUint(words[1], 10, 64); ours && name != "" && err == nil {
				into[group+"."+name] = v
			}
		}
	}
}
