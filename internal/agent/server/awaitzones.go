package server

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// answerEvery is the pause between tries to get an answer. A new address is
// noticed by named's interface scan within a second.
const answerEvery = 20 * time.Millisecond

// awaitZones waits until every address to listen on answers for every zone: each
// zone is asked for at the first address, the first zone at the others. It returns
// the zones' serials. log looks at what the program has said while it does not
// answer: words to add to a time-out, or an error that ends the waiting.
func awaitZones(ctx context.Context, p *daemon, spec proto.NamedSpec, log func(at netip.Addr, zone string) (string, error), program string) (map[string]uint32, error) {
	serials := map[string]uint32{}
	for i, a := range spec.Listen {
		for j, z := range spec.Zones {
			if i > 0 && j > 0 {
				break
			}
			v, err := awaitAnswer(ctx, p, a, z.Name, log, program)
			if err != nil {
				return nil, err
			}
			serials[z.Name] = v
		}
	}
	return serials, nil
}

func awaitAnswer(ctx context.Context, p *daemon, at netip.Addr, zone string, log func(netip.Addr, string) (string, error), program string) (uint32, error) {
	for {
		v, err := serial(ctx, at, zone)
		if err == nil {
			return v, nil
		}
		said, refused := log(at, zone)
		if refused != nil {
			return 0, refused
		}
		select {
		case <-ctx.Done():
			return 0, fail(proto.CodeTimeout, at.String(), "%s does not answer for %s at this address: %v%s", program, zone, err, said)
		case <-p.exited:
			if _, refused := log(at, zone); refused != nil { // the log is complete now
				return 0, refused
			}
			return 0, fail(proto.CodeFailed, program, "ended: %s", reasonOfEnd(p.grep("")))
		case <-time.After(answerEvery):
		}
	}
}

// serialTimeout bounds one SOA query, milliseconds; an answer on the same
// machine takes about 2 ms under emulation.
const serialTimeout = 500

func serial(ctx context.Context, at netip.Addr, zone string) (uint32, error) {
	answer, err := query(ctx, proto.QuerySpec{Server: at, Name: zone, Type: "SOA", TimeoutMS: serialTimeout})
	switch {
	case err != nil:
		return 0, err
	case answer.Refused:
		return 0, errors.New("port 53 is closed")
	case answer.Rcode != "NOERROR" || len(answer.Answers) == 0:
		return 0, fmt.Errorf("%w: answer %s without SOA", errNotServed, answer.Rcode)
	case answer.Source != at:
		return 0, fmt.Errorf("the answer came from %s", answer.Source)
	}
	fields := strings.Fields(answer.Answers[0])
	if len(fields) != 7 {
		return 0, fmt.Errorf("unreadable SOA %q", answer.Answers[0])
	}
	v, err := strconv.ParseUint(fields[2], 10, 32)
	return uint32(v), err
}

// boundTo lists the addresses, loopback left out, on which a UDP socket has
// that port.
func boundTo(port uint16) ([]netip.Addr, error) {
	found := []netip.Addr{}
	for _, file := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		found = append(found, parseBound(f, port)...)
		f.Close()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// parseBound reads /proc/net/udp: the second column is the local address in
// hexadecimal, each group of 32 bits in the machine's byte order (little-endian).
func parseBound(r io.Reader, port uint16) []netip.Addr {
	var found []netip.Addr
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		host, service, _ := strings.Cut(fields[1], ":")
		p, err := strconv.ParseUint(service, 16, 16)
		raw, err2 := hex.DecodeString(host)
		if err != nil || err2 != nil || uint16(p) != port || len(raw)%4 != 0 {
			continue
		}
		for i := 0; i < len(raw); i += 4 {
			slices.Reverse(raw[i : i+4])
		}
		if a, ok := netip.AddrFromSlice(raw); ok && !a.IsLoopback() {
			found = append(found, a)
		}
	}
	return found
}
