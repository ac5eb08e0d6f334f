package advise

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lvslab/lvslab/internal/lang"
)

var pacedTime = Rule{
	ID:    "paced-time",
	Title: "The rate fixes the duration",
	Why: "A fixed number of queries at a fixed rate takes queries ÷ rate, whatever the backends do. " +
		"batch_s, qps and Mbit/s then measure the generator's clock; latency is what such a run can show.",
	find: func(s *study) []Advice {
		list := s.which(func(t treatment) bool { return t.Setting.Rate > 0 })
		if len(list) == 0 {
			return nil
		}
		t := list[0].Setting
		return []Advice{{Text: fmt.Sprintf("%d queries at %s a second take %.3g s, whatever happens", t.Queries, short(t.Rate), float64(t.Queries)/t.Rate),
			Fix: "compare latency, not batch_s; or leave rate out", Range: s.at("rate")}}
	},
}

var closedLoop = Rule{
	ID:    "closed-loop",
	Title: "Latency from a closed loop",
	Why: "Without a rate a generator keeps a number of queries outstanding (dnsperf 100, lvslab its window) and sends the next when one is answered: " +
		"mean latency is outstanding ÷ answers a second, so latency and rate are one number, and queueing in the generator is part of it.",
	find: func(s *study) []Advice {
		list := s.which(func(t treatment) bool { return t.Setting.Rate == 0 })
		if len(list) == 0 {
			return nil
		}
		fix := "for latency set rate"
		if s.exp.Load.Kind == lang.LoadLVSLab {
			fix = `for latency set mode = "open" and rate`
		}
		return []Advice{{Text: "without a rate latency is outstanding ÷ answers a second", Fix: fix, Range: s.at("queries")}}
	},
}

// Sizes of answers over UDP. Without EDNS 512 bytes (RFC 1035, 4.2.1); with it
// BIND 9.18 answers up to max-udp-size, 1232 by default. Neither dnsperf here
// nor the own generator sends an EDNS option.
const (
	plainAnswer = 512
	ednsAnswer  = 1232
)

var bigAnswers = Rule{
	ID:    "big-answers",
	Title: "Answers that do not fit into UDP, and no TCP",
	Why: "Without EDNS, which neither generator sends, an answer over 512 bytes is cut off (TC=1); with EDNS BIND cuts at 1232. " +
		"A client then asks again by TCP, and a VIP without a TCP service resets that. Truncated answers are not counted as ok.",
	find: func(s *study) []Advice {
		udp := s.which(func(t treatment) bool { return t.Setting.Protocol == "udp" })
		name, size := s.largestAnswer()
		if len(udp) == 0 || size <= plainAnswer || s.hasTCP() {
			return nil
		}
		limit := fmt.Sprintf("over %d", plainAnswer)
		if size > ednsAnswer {
			limit += fmt.Sprintf(" and over %d", ednsAnswer)
		}
		return []Advice{{Text: fmt.Sprintf("the answer for %s has about %d bytes, %s", name, size, limit),
			Fix: "fewer or shorter values, or a second service with protocol = \"tcp\"", Range: s.exp.Range}}
	},
}

// hasTCP reports whether a TCP service stands under the same VIPs and port.
func (s *study) hasTCP() bool {
	for _, o := range s.topology.Services {
		if o.Protocol == "tcp" && o.Port == s.service.Port && len(o.VIPs) > 0 && o.VIPs[0] == s.service.VIPs[0] {
			return true
		}
	}
	return false
}

// largestAnswer estimates the size of each answer: header, question, and for
// each value a record with a compressed owner name (RFC 1035, 4.1).
func (s *study) largestAnswer() (name string, size int) {
	for _, r := range s.service.RealServers {
		m, _ := s.topology.Machine(r.Backend)
		for _, n := range m.Serves {
			z, ok := s.topology.Zone(n)
			if !ok {
				continue
			}
			for _, rec := range z.Records {
				full := z.Name + "."
				if rec.Name != "@" {
					full = rec.Name + "." + full
				}
				bytes := 12 + len(full) + 1 + 4
				for _, v := range rec.Values {
					bytes += 12 + dataSize(rec.Type, v)
				}
				if bytes > size {
					name, size = full+" "+rec.Type, bytes
				}
			}
		}
	}
	return name, size
}

func dataSize(kind, value string) int {
	switch kind {
	case "A":
		return 4
	case "AAAA":
		return 16
	case "TXT":
		return len(value) + (len(value)+254)/255
	}
	return len(value) + 4
}

// The kernel's defaults of nf_conntrack (nf_conntrack_proto_udp.c): 30 s for a
// UDP flow without an answer seen, which is what the director sees of a tunnel.
const conntrackUDP = 30 * time.Second

var conntrack = Rule{
	ID:    "conntrack",
	Title: "IPVS remembers longer than conntrack",
	Why: "With net.ipv4.vs.conntrack = 1 every entry of IPVS has one of nf_conntrack beside it. When that one ends first, " +
		"the next packet of the port finds half of its state gone. The director sees no answers through a tunnel, so the timeout of unanswered UDP counts.",
	find: func(s *study) []Advice {
		m, _ := s.topology.Machine(s.service.Director)
		if m.Sysctl["net.ipv4.vs.conntrack"] != "1" {
			return nil
		}
		limit := conntrackUDP
		if v, err := strconv.Atoi(m.Sysctl["net.netfilter.nf_conntrack_udp_timeout"]); err == nil {
			limit = time.Duration(v) * time.Second
		}
		list := s.which(func(t treatment) bool { return t.Setting.Protocol == "udp" && t.Setting.Timeouts.UDP > limit })
		if len(list) == 0 {
			return nil
		}
		return []Advice{{Text: fmt.Sprintf("timeout.udp is %.0f s, conntrack's is %.0f s", list[0].Setting.Timeouts.UDP.Seconds(), limit.Seconds()),
			Fix:   fmt.Sprintf("net.netfilter.nf_conntrack_udp_timeout = %q", strconv.Itoa(int(list[0].Setting.Timeouts.UDP/time.Second))),
			Range: s.topology.Place(m.Noun, "sysctl", m.Range)}}
	},
}

// short writes a number without places that say nothing.
func short(v float64) string {
	if v == math.Trunc(v) {
		return strconv.Itoa(int(v))
	}
	return fmt.Sprintf("%.3g", v)
}
