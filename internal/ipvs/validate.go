package ipvs

import (
	"cmp"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// validate finds what the kernel would accept and then do differently, or
// refuse with a bare number.
func validate(s proto.IPVSService) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w %s: %s", ErrInvalid, Name(s.IPVSKey), fmt.Sprintf(format, args...))
	}
	if s.FWMark == 0 {
		if _, err := protocolCode(s.Protocol); err != nil {
			return bad("protocol %q", s.Protocol)
		}
		if !s.VIP.IsValid() || s.Port == 0 && s.Persistence == 0 {
			return bad("it needs a VIP and a port")
		}
	}
	if s.Scheduler == "" || len(s.Scheduler) > 15 {
		return bad("scheduler %q", s.Scheduler)
	}
	if _, err := flagBits(s); err != nil {
		return err
	}
	if s.OnePacket && s.FWMark == 0 && s.Protocol != "udp" {
		return bad("one_packet works on UDP only")
	}
	longest := 32
	if family(s.IPVSKey) == unix.AF_INET6 {
		longest = 128
	}
	if s.Netmask < 0 || s.Netmask > longest {
		return bad("netmask /%d, the longest prefix is %d", s.Netmask, longest)
	}
	if s.Persistence < 0 || s.Timeouts.TCP < 0 || s.Timeouts.TCPFin < 0 || s.Timeouts.UDP < 0 {
		return bad("a timeout is negative")
	}
	for i, d := range s.Destinations {
		if err := validateDest(s, d); err != nil {
			return bad("destination %s: %v", destName(d), err)
		}
		for _, e := range s.Destinations[:i] {
			if sameDest(d, e) {
				return bad("destination %s is there twice", destName(d))
			}
		}
	}
	return nil
}

func validateDest(s proto.IPVSService, d proto.IPVSDestination) error {
	switch {
	case !d.Address.IsValid():
		return fmt.Errorf("it has no address")
	case d.Forward != "tunnel" && d.Forward != "direct" && d.Forward != "masquerade":
		return fmt.Errorf("forward %q, want tunnel, direct or masquerade", d.Forward)
	case addrFamily(d.Address) != family(s.IPVSKey) && d.Forward != "tunnel":
		// Accepted without an error by moby/ipvs, becoming 253.0.0.0 (EXP-M).
		return fmt.Errorf("its address family is not the service's; only tunnels can bridge that")
	case s.FWMark == 0 && d.Forward != "masquerade" && d.Port != s.Port:
		// The kernel takes the port and ignores it (EXP-B15: 5353 answered by 53).
		return fmt.Errorf("forward %s keeps the service's port %d", d.Forward, s.Port)
	case d.Weight < 0 || d.Weight > math.MaxInt32:
		return fmt.Errorf("weight %d", d.Weight)
	case d.Upper < 0 || d.Lower < 0 || d.Upper > math.MaxInt32 || d.Lower > d.Upper:
		return fmt.Errorf("thresholds: lower %d, upper %d", d.Lower, d.Upper)
	case d.Forward != "tunnel" && (d.TunnelType != "" || d.TunnelPort != 0):
		return fmt.Errorf("tunnel type %q without forward tunnel", d.TunnelType)
	case d.TunnelType == "gue" && d.TunnelPort == 0:
		return fmt.Errorf("a gue tunnel needs a port")
	case d.TunnelType != "gue" && d.TunnelPort != 0:
		return fmt.Errorf("only a gue tunnel has a port")
	case d.TunnelChecksum != "" && (d.TunnelType == "" || d.TunnelChecksum == "remote" && d.TunnelType != "gue"):
		return fmt.Errorf("a tunnel of type %q has no checksum %q", cmp.Or(d.TunnelType, "ipip"), d.TunnelChecksum)
	case s.OnePacket && d.Forward == "masquerade":
		// Replies are not translated back: there is no entry to match (EXP-D17).
		return fmt.Errorf("one_packet with masquerade loses every reply")
	}
	_, err := tunnelCode(d.TunnelType)
	return err
}
