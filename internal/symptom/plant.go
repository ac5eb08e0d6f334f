package symptom

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

// Plantable lists the symptoms that can be planted, in the order in which all of
// them are.
var Plantable = []Name{Fallback, RPFilter, ARP, VIPNotLocal, StaleEntries, NamedAddress, OwnAddress}

// Site is where a symptom is planted, as it is now.
type Site struct {
	Service, Director, Backend addr.Noun // the backend is the first real server's
	Clients                    []Card
	VIPs                       []netip.Addr
	Port                       uint16
	Protocol                   string
	OnePacket                  bool
	Address                    netip.Addr // the backend's own
	Card                       string     // the backend's
	Tunnel                     string     // device on the backend, "" without a tunnel
	Fallback                   string
	Server                     string // the backend's name server, one of proto's Server constants
	// Held are the addresses of the director's card, in the kernel's order.
	Held        []netip.Prefix
	HeldBy      string
	DirectorNow map[string]string // kernel parameters of the director
	BackendNow  map[string]string // and of the backend
}

// Card is a machine's network card.
type Card struct {
	Machine addr.Noun
	Device  string
}

// Parameters of the kernel that are changed, and so must be read before.
const (
	rpFilterAll = "net.ipv4.conf.all.rp_filter"
	nodest      = "net.ipv4.vs.expire_nodest_conn"
)

// Parameters lists the kernel parameters of the backend and of the director that a
// [Site] must hold.
func Parameters(card string) (backend, director []string) {
	return append(arpParameters(card), rpFilterAll), []string{nodest}
}

func arpParameters(card string) []string {
	var out []string
	for _, of := range []string{"all", card} {
		out = append(out, "net.ipv4.conf."+of+".arp_ignore", "net.ipv4.conf."+of+".arp_announce")
	}
	return out
}

// Step is a shell script for one machine, run with sh -ec.
type Step struct {
	Machine addr.Noun `json:"machine"`
	Script  string    `json:"script"`
}

// Plant is a symptom that can be planted, and how it is taken back. Undo is right
// also when only a part of Do has been done. With GiveBack the director's services
// are made anew at last.
type Plant struct {
	Symptom  Name      `json:"symptom"`
	At       addr.Noun `json:"at"` // where it must be found
	Says     string    `json:"says"`
	Do       []Step    `json:"do"`
	Undo     []Step    `json:"undo"`
	GiveBack bool      `json:"give_back,omitempty"`
}

// ErrUnfit says that a service can't have a symptom.
var ErrUnfit = errors.New("the service can't have this symptom")

func unfit(name Name, service addr.Noun, why, remedy string) error {
	f := diag.Fail(diag.Told(ErrUnfit), "This service can't have the symptom "+string(name), remedy, "%s", why)
	f.Diagnostic = f.Diagnostic.For(service.String())
	return f
}

// Plant says how to plant a symptom. The error wraps [ErrUnfit] when the service
// can't have it.
func (s Site) Plant(name Name) (Plant, error) {
	switch name {
	case Fallback:
		return s.plantFallback()
	case RPFilter:
		return s.plantRPFilter()
	case ARP:
		return s.plantARP(), nil
	case VIPNotLocal:
		return s.plantVIP()
	case StaleEntries:
		return s.plantEntries()
	case NamedAddress:
		return s.plantNamed()
	case OwnAddress:
		return s.plantOwnAddress()
	}
	return Plant{}, fmt.Errorf("%q is no symptom that can be planted", name)
}

func (s Site) plantFallback() (Plant, error) {
	if s.Tunnel == "" {
		return Plant{}, unfit(Fallback, s.Service, "it does not forward through a tunnel", `Choose a service with forward = "tunnel".`)
	}
	var add []string
	for _, vip := range s.VIPs {
		add = append(add, fmt.Sprintf("ip addr replace %s/32 dev %s", vip, s.Fallback))
	}
	return Plant{
		Symptom: Fallback, At: s.Backend, Says: fmt.Sprintf("%s takes the tunnel's packets in the place of %s", s.Fallback, s.Tunnel),
		Do: []Step{{s.Backend, lines(append(add, "sysctl -qw net.ipv4.conf."+s.Fallback+".rp_filter=0",
			"ip link set dev "+s.Fallback+" up", "ip link set dev "+s.Tunnel+" down")...)}},
		Undo: []Step{{s.Backend, lines("ip link set dev "+s.Tunnel+" up", "ip link set dev "+s.Fallback+" down", "ip addr flush dev "+s.Fallback)}},
	}, nil
}

func (s Site) plantRPFilter() (Plant, error) {
	if s.Tunnel == "" {
		return Plant{}, unfit(RPFilter, s.Service, "what it forwards comes in on the card that answers leave by, and strict filtering lets it pass", `Choose a service with forward = "tunnel".`)
	}
	return Plant{
		Symptom: RPFilter, At: s.Backend, Says: "reverse path filtering is strict",
		Do:   []Step{{s.Backend, set(rpFilterAll, "1")}},
		Undo: []Step{{s.Backend, set(rpFilterAll, s.BackendNow[rpFilterAll])}},
	}, nil
}

func (s Site) plantARP() Plant {
	var do, undo []string
	for _, name := range arpParameters(s.Card) {
		do, undo = append(do, set(name, "0")), append(undo, set(name, s.BackendNow[name]))
	}
	return Plant{
		Symptom: ARP, At: s.Backend, Says: "it answers ARP for every address that it has, the VIP among them; the clients forget whom they know",
		Do:   append([]Step{{s.Backend, lines(do...)}}, s.forget()...),
		Undo: append([]Step{{s.Backend, lines(undo...)}}, s.forget()...),
	}
}

// forget makes the clients ask again who has the VIPs.
func (s Site) forget() []Step {
	var out []Step
	for _, c := range s.Clients {
		var forget []string
		for _, vip := range s.VIPs {
			forget = append(forget, fmt.Sprintf("ip neigh flush to %s dev %s", vip, c.Device))
		}
		out = append(out, Step{c.Machine, lines(forget...)})
	}
	return out
}

// plantVIP takes the VIPs away and, to take it back, gives the card its addresses
// again in their order.
func (s Site) plantVIP() (Plant, error) {
	var do, undo []string
	for _, a := range s.Held {
		if slices.Contains(s.VIPs, a.Addr()) {
			do = append(do, fmt.Sprintf("ip addr del %s dev %s", a, s.HeldBy))
		}
		if len(do) > 0 {
			undo = append(undo, fmt.Sprintf("ip addr del %s dev %s 2>/dev/null || :", a, s.HeldBy), fmt.Sprintf("ip addr add %s dev %s", a, s.HeldBy))
		}
	}
	if len(do) == 0 {
		return Plant{}, unfit(VIPNotLocal, s.Service, fmt.Sprintf("the director's %s does not hold its VIP: it has %v", s.HeldBy, s.Held), "Apply the lab first.")
	}
	return Plant{
		Symptom: VIPNotLocal, At: s.Director, Says: "it does not hold the VIP",
		Do: []Step{{s.Director, lines(do...)}}, Undo: append([]Step{{s.Director, lines(undo...)}}, s.forget()...),
	}, nil
}

// plantEntries has a client's ports tied to backends, and makes the services anew
// without letting the kernel forget that.
func (s Site) plantEntries() (Plant, error) {
	if s.OnePacket {
		return Plant{}, unfit(StaleEntries, s.Service, "one-packet scheduling leaves no entries", "Choose a service with one_packet = false.")
	}
	const kept = "/run/lvslab-planted.rules"
	ask := "dig +short +tries=1 +time=2"
	if s.Protocol == "tcp" {
		ask += " +tcp"
	}
	ask += strings.Repeat(fmt.Sprintf(" @%s -p %d id.server CH TXT", s.VIPs[0], s.Port), 3)
	return Plant{
		Symptom: StaleEntries, At: s.Director, Says: "the services are deleted and made anew, while entries of three ports live on",
		Do: []Step{
			{s.Director, set(nodest, "0")},
			{s.Clients[0].Machine, ask},
			{s.Director, lines("ipvsadm -Sn > "+kept, "ipvsadm -C", "ipvsadm -R < "+kept)},
		},
		Undo:     []Step{{s.Director, lines(set(nodest, s.DirectorNow[nodest]), "rm -f "+kept)}},
		GiveBack: true,
	}, nil
}

// plantNamed has named listen on the backend's own address only. Whether it does is
// seen by its sockets.
func (s Site) plantNamed() (Plant, error) {
	if s.Server != proto.ServerBIND {
		return Plant{}, unfit(NamedAddress, s.Service, fmt.Sprintf("%s runs %s, which opens the sockets that it is told to", s.Backend, s.Server),
			"Choose a service whose first real server runs BIND.")
	}
	const conf, kept = "/run/named/named.conf", "/run/named/lvslab-planted.conf"
	vip := s.VIPs[0]
	sockets := fmt.Sprintf("$(ss -Hlun src %s:%d)", vip, s.Port)
	return Plant{
		Symptom: NamedAddress, At: s.Backend, Says: "named listens on " + s.Address.String() + " alone",
		Do: []Step{{s.Backend, lines("grep -q 'listen-on { any; };' "+conf, "cp -p "+conf+" "+kept,
			fmt.Sprintf("sed -i 's/listen-on { any; };/listen-on { 127.0.0.1; %s; };/' %s", s.Address, conf),
			"kill -HUP $(pidof named)", until("-z", sockets))}},
		Undo: []Step{{s.Backend, lines("if [ -e "+kept+" ]; then mv "+kept+" "+conf+"; fi", "kill -HUP $(pidof named)", until("-n", sockets))}},
	}, nil
}

// until waits for a condition of test(1), 20 s at most.
func until(test, value string) string {
	return fmt.Sprintf(`for i in $(seq 200); do if [ %s "%s" ]; then exit 0; fi; sleep 0.1; done; exit 1`, test, value)
}

// plantOwnAddress rewrites the source of answers on their way out. It needs no
// connection tracking: a rule of nftables that writes into the packet.
func (s Site) plantOwnAddress() (Plant, error) {
	if s.Protocol != "udp" {
		return Plant{}, unfit(OwnAddress, s.Service, "a TCP connection with another address never comes about", "Choose a UDP service.")
	}
	do := []string{"nft add table ip lvslab_planted", "nft 'add chain ip lvslab_planted out { type filter hook postrouting priority 0; }'"}
	for _, vip := range s.VIPs {
		do = append(do, fmt.Sprintf("nft add rule ip lvslab_planted out ip saddr %s udp sport %d ip saddr set %s", vip, s.Port, s.Address))
	}
	return Plant{
		Symptom: OwnAddress, At: s.Backend, Says: "its answers leave with " + s.Address.String() + " as their source",
		Do:   []Step{{s.Backend, lines(do...)}},
		Undo: []Step{{s.Backend, lines("nft add table ip lvslab_planted", "nft delete table ip lvslab_planted")}}, // add: it may not be there
	}, nil
}

func set(name, value string) string { return fmt.Sprintf("sysctl -qw %s=%s", name, value) }

func lines(commands ...string) string { return strings.Join(commands, "\n") }

// Named reports whether what was found is the planted symptom at its place, and
// nothing else.
func (p Plant) Named(found []Finding) bool {
	return len(found) > 0 && !slices.ContainsFunc(found, func(f Finding) bool { return f.Symptom != p.Symptom || f.At != p.At })
}
