package experiment

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/lang"
)

// The kernel's defaults of the IPVS timeouts (ip_vs_proto_tcp.c and
// ip_vs_proto_udp.c). A run sets every timeout, because 0 would leave in force
// what the run before it had asked for.
const (
	defaultTCPTimeout    = 900 * time.Second
	defaultTCPFinTimeout = 120 * time.Second
	defaultUDPTimeout    = 300 * time.Second
)

// defaultAnswerTimeout is what "in time" means when the load does not say; it
// is dnsperf's own default.
const defaultAnswerTimeout = 5 * time.Second

// Setting is everything that a treatment decides, resolved: what the service,
// the load and the experiment declare, with the treatment's factors on top.
type Setting struct {
	Scheduler string        `json:"scheduler"`
	OnePacket bool          `json:"one_packet"`
	Flags     []string      `json:"flags,omitempty"` // sorted
	Protocol  string        `json:"protocol"`        // udp or tcp
	Timeouts  lang.Timeouts `json:"timeouts"`        // whole seconds, none of them 0

	// Weights belong to the real servers in declared order.
	Weights []int `json:"weights"`
	// Order is the kernel's list: position p, 0 = head, holds real server Order[p].
	Order []int `json:"order"`

	// Load is the generator when it is not dnsperf, Mode and Window are its own.
	Load   string `json:"load,omitempty"`   // lvslab
	Mode   string `json:"mode,omitempty"`   // closed or open
	Window int    `json:"window,omitempty"` // queries outstanding in a closed loop

	Queries int           `json:"queries"`         // per client
	Sockets int           `json:"sockets"`         // source ports of one process, 0 with Fresh
	Fresh   bool          `json:"fresh,omitempty"` // a source port of its own for each query
	Rate    float64       `json:"rate"`            // queries a second and client, 0 = as fast as answers come
	Within  time.Duration `json:"within"`          // an answer that takes longer is late

	// Mark is the service's firewall mark and Port where its packets go to, both 0
	// when it has none: what IPVS lists of it then names no address.
	Mark uint32 `json:"fwmark,omitempty"`
	Port uint16 `json:"port,omitempty"`

	// Kernel is the image that the director boots for the run, image.old; empty
	// when it is the declared one.
	Kernel string `json:"kernel,omitempty"`

	// Seen are the addresses of the experiment's clients that routers masquerade, and
	// in whose place the director sees another one; nil without any.
	Seen map[netip.Addr]netip.Addr `json:"seen,omitempty"`

	Clients int `json:"clients"` // the first n of the experiment's
	// StartWithin bounds how far apart the clients may begin; 0 in an experiment with one.
	StartWithin time.Duration `json:"start_within,omitempty"`
	VIPs        int           `json:"vips"` // the first n of the service's

	// Direct is the backend that the load is sent to without LVS, backend.ns[0];
	// empty for a run through the director.
	Direct string `json:"direct,omitempty"`
}

// declaredSetting is what holds without any factor.
func declaredSetting(t *lang.Topology, svc lang.Service, e lang.Experiment) Setting {
	s := Setting{
		Scheduler: svc.Scheduler, OnePacket: svc.OnePacket, Protocol: svc.Protocol,
		Flags: sorted(svc.Flags), Timeouts: directorTimeouts(t, svc.Director),
		Queries: e.Load.Queries, Sockets: e.Load.Sockets, Rate: e.Load.Rate, Within: e.Load.Timeout,
		Clients: len(e.Clients), VIPs: len(svc.VIPs), Seen: t.Seen(svc, e.Clients),
	}
	if s.Clients > 1 {
		s.StartWithin = cmp.Or(e.StartWithin, lang.DefaultStartWithin)
	}
	if e.Load.Protocol != "" {
		s.Protocol = e.Load.Protocol
	}
	if s.Within <= 0 {
		s.Within = defaultAnswerTimeout
	}
	if e.Load.Kind == lang.LoadLVSLab {
		s.Load, s.Mode, s.Window, s.Fresh = e.Load.Kind, e.Load.Mode, e.Load.Window, e.Load.Fresh
	}
	if s.Sockets < 1 && !s.Fresh {
		s.Sockets = 1
	}
	if svc.FWMark != 0 {
		s.Mark, s.Port = svc.FWMark, svc.Port
	}
	for i, r := range svc.RealServers {
		s.Weights = append(s.Weights, r.Weight)
		s.Order = append(s.Order, i)
	}
	return s
}

// directorTimeouts are what a director's services ask for together, since the
// kernel keeps one set for all of them, and the kernel's defaults for the rest.
func directorTimeouts(t *lang.Topology, director addr.Noun) lang.Timeouts {
	var all lang.Timeouts
	for _, svc := range t.Services {
		if svc.Director == director {
			all.TCP = cmp.Or(all.TCP, svc.Timeouts.TCP)
			all.TCPFin = cmp.Or(all.TCPFin, svc.Timeouts.TCPFin)
			all.UDP = cmp.Or(all.UDP, svc.Timeouts.UDP)
		}
	}
	return lang.Timeouts{
		TCP:    cmp.Or(all.TCP, defaultTCPTimeout),
		TCPFin: cmp.Or(all.TCPFin, defaultTCPFinTimeout),
		UDP:    cmp.Or(all.UDP, defaultUDPTimeout),
	}
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}
