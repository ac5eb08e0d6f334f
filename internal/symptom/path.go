package symptom

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Path is what one query that IPVS had to send to one backend left on its way.
// Counts are increases since before the query.
type Path struct {
	Client, Backend, Director addr.Noun
	VIP                       netip.Addr
	Alone                     bool // the backend was the only real server

	// Answer is what came back, nil when nothing did in time. Refused in it says
	// that an ICMP error did.
	Answer *proto.QueryAnswer

	Scheduled  uint64 // connections that IPVS counted
	Tunnelled  bool   // the service forwards through a tunnel
	Tunnel     proto.TunnelState
	Arrived    uint64 // packets that the tunnel device received
	Fallback   string // the fallback device beside it, "" when there is none
	OnFallback uint64 // packets that it received
	RPFiltered uint64 // packets that reverse path filtering dropped on the backend
	Requests   uint64 // requests that the name server counted
	Named      proto.NamedState
}

// RPFilterCounter counts what strict reverse path filtering drops (ip-sysctl.rst).
const RPFilterCounter = "TcpExt.IPReversePathFilter"

// Judge names cause and remedy of a query that did not go or was not answered as it
// should be, nil when all is well.
func (p Path) Judge() *Finding {
	if p.Answer == nil || p.Answer.Refused {
		return p.lost()
	}
	if f := JudgeAnswer(p.Backend, p.VIP, *p.Answer, true); f != nil {
		return f
	}
	if p.throughFallback() {
		return p.fallback()
	}
	return nil
}

// JudgeAnswer judges an answer that must come from the backend under the VIP. With
// identity it answers the question for id.server.
func JudgeAnswer(backend addr.Noun, vip netip.Addr, a proto.QueryAnswer, identity bool) *Finding {
	name := backend.String()
	switch {
	case a.Source.IsValid() && a.Source != vip:
		return found(OwnAddress, backend, "An answer has the wrong source address",
			"Let the server open a socket for each address, as BIND does: it must answer from the address that was asked. Look also for rules that rewrite addresses (lvslab exec "+name+" -- nft list ruleset).",
			fmt.Sprintf("The answer of %s to a query for %s came from %s; a careful client ignores it.", name, vip, a.Source))
	case a.Rcode != "NOERROR":
		return found(ErrorAnswer, backend, "A backend answers with an error",
			"Look at its log: lvslab logs "+name+".", fmt.Sprintf("%s answers %s under %s.", name, a.Rcode, vip))
	case identity && !slices.Contains(a.Answers, name) && !slices.Contains(a.Answers, strconv.Quote(name)):
		return found(OtherBackend, backend, "Another backend answers",
			"Check the ends of both backends' tunnels and the addresses of the real servers.",
			fmt.Sprintf("A query for %s that was sent to %s was answered by %s.", vip, name, strings.Join(a.Answers, " ")))
	}
	return nil
}

// throughFallback says that the query came in on the fallback device. Counters of
// both devices tell; that it is up alone would not.
func (p Path) throughFallback() bool { return p.Tunnelled && p.OnFallback > 0 && p.Arrived == 0 }

func (p Path) refused() bool { return p.Answer != nil && p.Answer.Refused }

// lost names why a query was not answered. The order of the cases is the query's
// way: what it did not reach explains why nothing after it happened.
func (p Path) lost() *Finding {
	reached := p.Arrived > 0 || p.OnFallback > 0
	switch {
	case p.Scheduled == 0 && p.refused():
		return found(NobodyChosen, p.Director, "The director refuses queries",
			"Look at the service (lvslab exec "+p.Director.String()+" -- ipvsadm -Ln) and at the kernel's log for \"no destination available\".",
			p.facts(), "The query reached the director, which has no service for it or nobody to schedule.")
	case p.Scheduled == 0:
		return found(NotScheduled, p.Director, "The director does not schedule queries",
			"Check that the VIP is local there (lvslab exec "+p.Director.String()+" -- ip route get "+p.VIP.String()+") and that nothing filters its port.",
			p.facts(), "IPVS sees only what is delivered locally: the VIP is not on the director, or the service has another protocol or port.")
	case p.Tunnelled && !reached && p.refused():
		return found(NoReceiver, p.Backend, "The backend has no receiver for the tunnel",
			"Check the tunnel device on the backend: it must be up, with the backend's address as local and the director's as remote end.",
			p.facts(), fmt.Sprintf("The device is %s.", p.tunnelText()))
	case p.Tunnelled && !reached:
		return found(LostInTunnel, p.Backend, "Packets are lost between director and backend",
			"Check that the backend is reachable from the director and that nothing filters the tunnel's protocol (IPIP is IP protocol "+p.ipip()+").",
			p.facts(), fmt.Sprintf("IPVS sent the packet into the tunnel, and it did not come out. The device is %s.", p.tunnelText()))
	case p.Requests == 0 && p.RPFiltered > 0:
		return found(RPFilter, p.Backend, "Reverse path filtering drops what comes out of the tunnel",
			"Set net.ipv4.conf.all.rp_filter and that of the tunnel device to 0: the larger of the two counts.",
			p.facts(), fmt.Sprintf("%s rose by %d.", RPFilterCounter, p.RPFiltered))
	case p.throughFallback():
		return p.fallback()
	case p.Requests == 0 && p.Tunnelled && !slices.ContainsFunc(p.Tunnel.Addresses, func(a netip.Prefix) bool { return a.Addr() == p.VIP }):
		return found(NoVIP, p.Backend, "The backend does not hold the VIP",
			fmt.Sprintf("Give the tunnel device the VIP with prefix length %d.", p.VIP.BitLen()),
			p.facts(), fmt.Sprintf("The packet arrived, and its destination is not local. The device is %s.", p.tunnelText()))
	case p.Requests == 0 && !slices.Contains(p.Named.Listen, p.VIP):
		return found(NamedAddress, p.Backend, p.server()+" does not listen on the VIP", p.listening(),
			p.facts(), fmt.Sprintf("It listens on %v.", p.Named.Listen))
	case p.Requests == 0:
		return found(LostInBackend, p.Backend, "The query is lost inside the backend",
			"Capture on the backend: lvslab exec "+p.Backend.String()+" -- tcpdump -ni any port 53.",
			p.facts(), "It arrived, and "+p.server()+" never saw it.")
	}
	return found(LostOnReturn, p.Backend, "The answer does not reach the client",
		"Check the backend's route to the client, and that no anti-spoofing filter drops frames whose source is the VIP.",
		p.facts(), p.server()+" took the query; an answer goes straight from the backend to the client, with the VIP as its source.")
}

func (p Path) fallback() *Finding {
	return found(Fallback, p.Backend, "The fallback device receives instead of the named one",
		"Set "+p.Fallback+" down and the named device up, with both ends right and the VIP on it: the fallback takes packets from anybody, so a wrong end never shows.",
		p.facts(), fmt.Sprintf("%s received %d. The named device is %s.", p.Fallback, p.OnFallback, p.tunnelText()))
}

// server is the name server's program.
func (p Path) server() string { return proto.ServerProgram(p.Named.Server) }

// listening is how the name server gets the VIP among its addresses.
func (p Path) listening() string {
	if p.Named.Server == proto.ServerBIND {
		return "Start named after the VIP is there, or let it scan its interfaces (automatic-interface-scan yes)."
	}
	return "Name the VIP among the addresses of its configuration, and start it anew: lvslab apply does both."
}

// facts says the evidence in one sentence.
func (p Path) facts() string {
	outcome := "timed out"
	switch {
	case p.refused():
		outcome = "was refused"
	case p.Answer != nil:
		outcome = "was answered"
	}
	way := fmt.Sprintf("IPVS scheduled %d", p.Scheduled)
	if p.Tunnelled {
		way += fmt.Sprintf(", the tunnel device received %d", p.Arrived)
	}
	whom := "whose turn was " + p.Backend.String()
	if p.Alone {
		whom = "with " + p.Backend.String() + " as the only real server"
	}
	return fmt.Sprintf("A query from %s to %s %s %s: %s, %s counted %d.", p.Client, p.VIP, whom, outcome, way, p.server(), p.Requests)
}

// ipip is the number by which an outer header says what is inside: IPv4 or IPv6
// (RFC 2003, RFC 2473).
func (p Path) ipip() string {
	if p.VIP.Is6() {
		return "41"
	}
	return "4"
}

func (p Path) tunnelText() string {
	t := p.Tunnel
	if t.Name == "" {
		return "missing"
	}
	state := "down"
	if t.Up {
		state = "up"
	}
	text := fmt.Sprintf("%s (%s, local %s, remote %s, addresses %v)", t.Name, state, t.Local, t.Remote, t.Addresses)
	if t.FallbackUp {
		text += ", and the fallback device is up, which hides a wrong end"
	}
	return text
}
