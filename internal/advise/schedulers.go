package advise

import (
	"fmt"
	"math"
	"slices"

	"github.com/lvslab/lvslab/internal/lang"
)

var onePort = Rule{
	ID:    "one-port",
	Title: "Fewer source ports than backends",
	Why: "IPVS decides once for each source port: later packets of the port follow its entry. " +
		"With fewer ports than backends no scheduler can show how it spreads load, and all look alike.",
	find: func(s *study) []Advice {
		few := s.which(func(t treatment) bool { return !t.Setting.OnePacket && t.usable > 1 && t.ports < t.usable })
		if len(few) == 0 {
			return nil
		}
		t := few[0]
		who := "all treatments have"
		if len(few) < len(s.treatments) {
			who = fmt.Sprintf("%d of %d treatments have", len(few), len(s.treatments))
		}
		fix := fmt.Sprintf("sockets = %d", 20*max(1, (t.usable+19)/20))
		if t.Setting.Protocol == "udp" && s.service.Forward != "masquerade" {
			fix += ", or one_packet = true"
		}
		return []Advice{{Text: fmt.Sprintf("%s %s for %d backends", who, count(t.ports, "source port"), t.usable), Fix: fix, Range: s.at("sockets")}}
	},
}

var activeOnUDP = Rule{
	ID:    "active-udp",
	Title: "A scheduler that counts active connections, on UDP",
	Why: "sed, nq and ovf look at active connections only, and the kernel never counts an entry of UDP as active. " +
		"Every backend always looks idle: sed and ovf send everything to the highest weight, nq to the list head.",
	find: where(func(t treatment) bool {
		return t.Setting.Protocol == "udp" && t.usable > 1 && slices.Contains([]string{"sed", "nq", "ovf"}, t.Setting.Scheduler)
	}, func(s *study, list []treatment) Advice {
		return Advice{Text: fmt.Sprintf("for UDP %s always %s one backend", schedulersOf(list), verb(list, "uses", "use")),
			Fix: "use rr, wrr, lc or wlc, or protocol = \"tcp\"", Range: s.at("scheduler")}
	}),
}

var oneVIP = Rule{
	ID:    "one-vip",
	Title: "A scheduler that chooses by the VIP, with one VIP",
	Why: "dh hashes the destination address, lblc and lblcr keep a backend for each destination address. " +
		"One VIP means one backend, whatever the ports; which one dh picks depends on the VIP's digits.",
	find: where(func(t treatment) bool {
		return t.Setting.VIPs == 1 && t.usable > 1 && slices.Contains([]string{"dh", "lblc", "lblcr"}, t.Setting.Scheduler)
	}, func(s *study, list []treatment) Advice {
		return Advice{Text: fmt.Sprintf("%s %s by the VIP, and there is 1", schedulersOf(list), verb(list, "chooses", "choose")),
			Fix: "vips = [...] with several", Range: s.at("scheduler")}
	}),
}

var oneClient = Rule{
	ID:    "one-client",
	Title: "A scheduler that hashes the client, with one client",
	Why: "sh and mh hash the source address, without the port unless a flag says so. " +
		"One client address means one backend, whatever the ports.",
	find: where(func(t treatment) bool {
		return t.sources == 1 && t.usable > 1 && (t.Setting.Scheduler == "sh" || t.Setting.Scheduler == "mh") &&
			!slices.Contains(t.Setting.Flags, t.Setting.Scheduler+"-port")
	}, func(s *study, list []treatment) Advice {
		flag := list[0].Setting.Scheduler + "-port"
		return Advice{Text: fmt.Sprintf("%s %s the client's address, and there is 1", schedulersOf(list), verb(list, "hashes", "hash")),
			Fix: fmt.Sprintf("more clients or addresses, or flags = [%q]", flag), Range: s.at("scheduler")}
	}),
}

var onePacketLeast = Rule{
	ID:    "ops-least",
	Title: "Least connections under one-packet scheduling",
	Why: "With one_packet an entry is gone before the next packet is scheduled, so lc and wlc find every backend empty " +
		"and send nearly everything to the list head (measured: 98 to 100 %).",
	find: where(func(t treatment) bool {
		return t.Setting.OnePacket && t.usable > 1 && (t.Setting.Scheduler == "lc" || t.Setting.Scheduler == "wlc")
	}, func(s *study, list []treatment) Advice {
		return Advice{Text: fmt.Sprintf("with one_packet %s %s nothing to count", schedulersOf(list), verb(list, "has", "have")),
			Fix: "use rr or wrr with one_packet", Range: s.at("one_packet")}
	}),
}

var freshPackets = Rule{
	ID:    "fresh-packets",
	Title: "One-packet scheduling with a source port for each query",
	Why: "With a port of its own every query is a decision already, so one_packet changes nothing about how many decisions there are: " +
		"what differs is that no entry is left, which lc and wlc count and a removed backend keeps.",
	find: where(func(t treatment) bool { return t.Setting.OnePacket && t.Setting.Fresh && t.usable > 1 },
		func(s *study, list []treatment) Advice {
			return Advice{Text: fmt.Sprintf("sockets = \"fresh\" and one_packet in %d of %s", len(list), count(len(s.treatments), "treatment")),
				Fix: "one_packet = false, or a number of sockets", Range: s.at("one_packet")}
		}),
}

var fewAtATime = Rule{
	ID:    "few-at-a-time",
	Title: "A scheduler that counts active connections, with fewer connections at a time than backends",
	Why: "sed and nq look at active connections only. With a connection for each query, one that has been answered has ended before the next one begins, " +
		"so with n of them at a time n backends are used at most, those nearest to the list head (measured with 1, 2 and 10 for 3 backends).",
	find: where(func(t treatment) bool {
		return fewOpen(t) < t.usable && slices.Contains([]string{"sed", "nq"}, t.Setting.Scheduler)
	}, func(s *study, list []treatment) Advice {
		return Advice{Text: fmt.Sprintf("with %s at a time %s %s not all of %d backends", count(fewOpen(list[0]), "connection"), schedulersOf(list), verb(list, "uses", "use"), list[0].usable),
			Fix: "a larger window, or sockets = 30 that are kept open", Range: s.at("window")}
	}),
}

// fewOpen is how many connections of one query each are open at a time; more than
// anybody counts when they are of another kind.
func fewOpen(t treatment) int {
	s := t.Setting
	if s.Protocol != "tcp" || !s.Fresh || s.Mode != lang.ModeClosed {
		return math.MaxInt
	}
	return s.Window * t.addresses * s.VIPs
}

var thresholds = Rule{
	ID:    "thresholds",
	Title: "Thresholds below the number of source ports",
	Why: "upper counts entries, not load: a source port of UDP is an entry until its timeout, idle or not. " +
		"When every backend is full IPVS refuses further ports, though nothing is busy. With one_packet there are no entries and upper does nothing.",
	find: func(s *study) []Advice {
		least, room, limited := 0, 0, true
		for _, r := range s.service.RealServers {
			if r.Upper == 0 {
				limited = false
				continue
			}
			room += r.Upper
			if least == 0 || r.Upper < least {
				least = r.Upper
			}
		}
		over := s.which(func(t treatment) bool { return !t.Setting.OnePacket && least > 0 && t.ports > least })
		if len(over) == 0 {
			return nil
		}
		t := over[0]
		text := fmt.Sprintf("upper = %d, and a run has %s", least, count(t.ports, "source port"))
		if limited && t.ports > room {
			text += fmt.Sprintf(": %d of them find all backends full", t.ports-room)
		}
		return []Advice{{Text: text, Fix: fmt.Sprintf("upper = %d or more", t.ports), Range: s.topology.Place(s.service.Noun, "real_server[0].upper", s.service.Range)}}
	},
}

var persistentClient = Rule{
	ID:    "one-persistent",
	Title: "Persistence with one client",
	Why: "Under persistence all ports of a client, and with a netmask of its whole network, follow its first one. " +
		"One client means one decision for the whole timeout.",
	find: func(s *study) []Advice {
		list := s.which(func(t treatment) bool { return t.sources == 1 && t.usable > 1 })
		if s.service.Persistence == nil || len(list) == 0 {
			return nil
		}
		return []Advice{{Text: "the first port of the only client decides for all", Fix: "more clients or addresses, or no persistence block",
			Range: s.topology.Place(s.service.Noun, "persistence[0].timeout", s.service.Range)}}
	},
}
