package replay

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// script writes the services and the first packets as events for the model or a
// kernel (docs/model.md, Cases), with what the model makes of each, and above
// them what a report of a bug has to say.
func (t *track) script(packets int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The kernel decided otherwise than the model of IPVS.\n# kernel: %s\n# first difference: %s\n", orUnknown(t.in.Kernel), t.out.Differs)
	for _, s := range t.in.Before {
		fmt.Fprintf(&b, "# before: %s %s, %s\n", serviceWord(s), s.Scheduler, list(s))
	}
	conns, _ := t.counted()
	for _, s := range t.in.After {
		for _, d := range s.Destinations {
			fmt.Fprintf(&b, "# after: %s %s weight %d, %d connections by the kernel\n", strings.TrimPrefix(serviceWord(s), s.Protocol+" "), t.name(d.Address), d.Weight, conns[d.Address])
		}
	}
	b.WriteString("-- the kernel differs --\n# derived: what the model of lvslab makes of a run's packets\n")
	if t.kernel.Before2026 {
		b.WriteString("kernel before-2026\n")
	}
	names := t.scriptNames(&b)
	t.scriptServices(&b, names)
	t.scriptPackets(&b, names, packets)
	return b.Bytes()
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// scriptNames gives every destination a short name, those of the first service
// in the order of its list.
func (t *track) scriptNames(b *bytes.Buffer) map[netip.AddrPort]string {
	names := map[netip.AddrPort]string{}
	for _, s := range t.in.Before {
		for _, d := range s.Destinations {
			at := netip.AddrPortFrom(d.Address, d.Port)
			if names[at] != "" {
				continue
			}
			names[at] = strconv.Itoa(len(names) + 1)
			fmt.Fprintf(b, "name %s %s # %s\n", names[at], at, t.name(d.Address))
		}
	}
	return names
}

func (t *track) scriptServices(b *bytes.Buffer, names map[netip.AddrPort]string) {
	for _, name := range []string{"conn_reuse_mode", "expire_nodest_conn", "expire_quiescent_template", "sloppy_tcp"} {
		if v, err := strconv.Atoi(t.in.Sysctl[sysctlPrefix+name]); err == nil {
			fmt.Fprintf(b, "sysctl %s %d\n", name, v)
		}
	}
	for _, s := range t.in.Before {
		at := serviceWord(s)
		fmt.Fprintf(b, "service %s %s%s\n", at, s.Scheduler, serviceOptions(s))
		fmt.Fprintf(b, "timeouts tcp=%ds fin=%ds udp=%ds\n", s.Timeouts.TCP, s.Timeouts.TCPFin, s.Timeouts.UDP)
		for _, d := range slices.Backward(s.Destinations) {
			fmt.Fprintf(b, "add %s %s weight=%d forward=%s", at, names[netip.AddrPortFrom(d.Address, d.Port)], d.Weight, d.Forward)
			if d.Upper > 0 {
				fmt.Fprintf(b, " upper=%d lower=%d", d.Upper, d.Lower)
			}
			b.WriteByte('\n')
		}
	}
}

// serviceWord names a service as scripts do.
func serviceWord(s proto.IPVSService) string {
	if s.FWMark != 0 {
		return fmt.Sprintf("mark %d", s.FWMark)
	}
	return fmt.Sprintf("%s %s", s.Protocol, netip.AddrPortFrom(s.VIP, s.Port))
}

func serviceOptions(s proto.IPVSService) string {
	out := ""
	if s.OnePacket {
		out += " ops=true"
	}
	if s.Persistence > 0 {
		out += fmt.Sprintf(" persist=%ds", s.Persistence)
		if spec, err := serviceOf(s); err == nil && spec.Netmask.IsValid() {
			out += " netmask=" + spec.Netmask.String()
		}
	}
	if len(s.Flags) > 0 {
		out += " flags=" + strings.Join(s.Flags, ",")
	}
	return out
}

// scriptPackets writes a line for each packet, and one where time went by: in
// whole milliseconds, which no timer is finer than.
func (t *track) scriptPackets(b *bytes.Buffer, names map[netip.AddrPort]string, n int) {
	waited := time.Duration(0)
	for i := range t.in.Packets[:n] {
		p, d := &t.in.Packets[i], t.decisions[i]
		if rest := (p.Time.Sub(t.in.Packets[0].Time) - waited).Truncate(time.Millisecond); rest > 0 {
			fmt.Fprintf(b, "wait %s\n", rest)
			waited += rest
		}
		fmt.Fprintf(b, "send %s %s %s", p.Protocol, p.Client, p.VIP)
		if m := t.in.mark(); m != 0 {
			fmt.Fprintf(b, " mark=%d", m)
		}
		if p.Protocol == "tcp" {
			fmt.Fprintf(b, " flags=%s", p.Flags)
		}
		word := names[d.Backend]
		if d.Why > ipvsmodel.ByTemplate {
			word = strings.ReplaceAll(d.Why.String(), " ", "-")
		}
		fmt.Fprintf(b, " -> %s", word)
		if p.Backend != "" && t.isBackend(p.Backend) {
			if d.Backend.IsValid() && t.in.Names[d.Backend.Addr()] == p.Backend {
				fmt.Fprintf(b, " # so the kernel")
			} else {
				fmt.Fprintf(b, " # the kernel: %s", short(p.Backend))
			}
		}
		b.WriteByte('\n')
	}
}
