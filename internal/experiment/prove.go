package experiment

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/internal/symptom"
)

// probeTimeout bounds one query of a proof.
const probeTimeout = 2 * time.Second

// proofTries is how often the walk over the backends is begun: a source port
// that the client happens to draw twice hits its old entry and so the wrong
// backend, which is no fault (1 in 1,500 walks with three backends).
const proofTries = 4

// Witness is one answer that a client got from one backend under the VIP.
type Witness struct {
	Client  addr.Noun     `json:"client"`
	VIP     netip.Addr    `json:"vip"`
	Backend addr.Noun     `json:"backend"`
	Source  netip.Addr    `json:"source"` // of the answer: the VIP
	RTT     time.Duration `json:"rtt_ns"`
}

// Proof says that the path works: every client got an answer from every
// backend under every VIP, through the director.
type Proof struct {
	Service     addr.Noun `json:"service"`
	FirstAnswer time.Time `json:"first_answer"` // host's clock; zero without clients
	Witnesses   []Witness `json:"witnesses"`
	// Seen is the way of one query to each backend as the machines on it saw it.
	Seen sighting.Record `json:"seen"`
}

// Prove sends queries to the VIPs from every client of the service's
// experiments (of the topology, when no experiment uses the service) and
// returns when each backend has answered each of them, or a [*diag.Failure]
// that names the cause and the remedy. Meanwhile each machine on the way watches, and
// ways that are not what was asked for are a failure too.
//
// For the proof the service gets rr, equal weights and a clean table, so that
// the n-th new source port goes to the n-th backend of the list: a walk over
// the list proves every tunnel and the order as well, in one round trip. Then
// the declared service is made again.
func Prove(ctx context.Context, lab *Lab, service addr.Noun) (Proof, error) {
	p, err := newProver(lab, service)
	if err != nil || len(p.cast.clients) == 0 {
		return Proof{Service: service}, err
	}
	loan, err := Borrow(lab.Topology, service, service)
	if err != nil {
		return Proof{}, err
	}
	err = p.prove(ctx)
	seen := make(chan error, 1)
	go func() { // it costs no time beside the other
		var err error
		p.proof.Seen, err = p.collect(context.WithoutCancel(ctx))
		seen <- err
	}()
	if back := loan.GiveBack(context.WithoutCancel(ctx), lab); err == nil {
		err = back
	}
	if watched := <-seen; err == nil {
		err = cmp.Or(watched, pathFailure(p.proof.Seen))
	}
	return p.proof, p.withSight(err)
}

type prover struct {
	lab   *Lab
	cast  *cast
	proof Proof
	hello *proto.QueryAnswer // to the first query of the walk that comes next
	stale bool               // a query has moved the scheduler on, and is not used

	queries []sighting.Asked // that were answered: one for each witness
	missed  *sighting.Asked  // the one that was not, or not as it should be; nil = none
	sight   sighting.Path    // how far that one came
}

func newProver(lab *Lab, service addr.Noun) (*prover, error) {
	var clients []addr.Noun
	for _, e := range lab.Topology.Experiments {
		if e.Service == service {
			for _, c := range e.Clients {
				if !slices.Contains(clients, c) {
					clients = append(clients, c)
				}
			}
		}
	}
	if len(clients) == 0 {
		for _, m := range lab.Topology.Machines {
			if m.Noun.Kind == addr.Client {
				clients = append(clients, m.Noun)
			}
		}
	}
	c, err := lab.cast(service, clients)
	return &prover{lab: lab, cast: c, proof: Proof{Service: service}}, err
}

// proofSetting is the service as the proof needs it, with the given real
// servers in list order.
func (p *prover) proofSetting(order []int) Setting {
	s := declaredSetting(p.lab.Topology, p.cast.service, lang.Experiment{})
	s.Scheduler, s.OnePacket, s.Flags, s.Order = "rr", false, nil, order
	s.Clients = len(p.cast.clients)
	for i := range s.Weights {
		s.Weights[i] = 1
	}
	return s
}

// proofServices drops what would keep rr from walking: persistence, thresholds.
func (p *prover) proofServices(order []int) []proto.IPVSService {
	svc := p.cast.service
	svc.Persistence = nil
	svc.RealServers = slices.Clone(svc.RealServers)
	for i := range svc.RealServers {
		svc.RealServers[i].Upper, svc.RealServers[i].Lower = 0, 0
	}
	return services(p.lab.Topology, svc, p.proofSetting(order))
}

// prove goes on in the order in which things become true. One clean slate is
// enough for all walks: each ends where it began, at the list head, and each VIP
// has a scheduler of its own; another slate would wait for the estimator first.
// With the slate the lab can answer, so the first query is sent at once; what it
// says is judged after the neighbours, for a stolen VIP explains everything.
func (p *prover) prove(ctx context.Context) error {
	order := make([]int, len(p.cast.service.RealServers))
	for i := range order {
		order[i] = i
	}
	watching := make(chan error, 1)
	go func() { watching <- p.watch(ctx) }()
	_, slate := p.fresh(ctx, p.proofServices(order))
	if err := <-watching; err != nil {
		return err
	}
	if slate == nil {
		p.sayHello(ctx)
	}
	err := p.neighbours(ctx, order)
	if err == nil {
		err = slate
	}
	if err != nil {
		return err
	}
	for _, c := range p.cast.clients {
		for _, vip := range p.cast.service.VIPs {
			walk := p.walk
			if p.loses(c, vip) {
				walk = p.walkLossy
			}
			if err := walk(ctx, c, vip, order); err != nil {
				return err
			}
		}
	}
	return p.losses(ctx)
}

// sayHello sends the lab's very first query, the first of the first walk, by
// itself: its answer says since when the lab answers. Without one the walk finds
// the reason.
func (p *prover) sayHello(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	c, vip := p.cast.clients[0], p.cast.service.VIPs[0]
	answer, err := do(ctx, p.lab, c.noun, proto.Query, p.identity(c, vip))
	if p.stale = err != nil || answer.Refused; p.stale {
		return
	}
	p.hello, p.proof.FirstAnswer = &answer, time.Now()
}

// greetTimeout bounds the lab's very first query: where it is lost, the proof
// finds the reason.
const greetTimeout = time.Second

// Greet sends one query from the service's first client and returns when the
// service's first real server had answered it, by the host's clock; the zero time
// when it has not. The service is as declared, and nothing else is looked at.
func Greet(ctx context.Context, lab *Lab, service addr.Noun) time.Time {
	p, err := newProver(lab, service)
	if err != nil || len(p.cast.clients) == 0 || len(p.cast.service.VIPs) == 0 {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	c, vip := p.cast.clients[0], p.cast.service.VIPs[0]
	query := p.identity(c, vip)
	query.TimeoutMS = greetTimeout.Milliseconds()
	answer, err := do(ctx, lab, c.noun, proto.Query, query)
	at := time.Now()
	if err != nil || judgeOne(p.cast.service.RealServers[0].Backend, vip, answer, true) != nil {
		return time.Time{}
	}
	return at
}

// neighbours primes all machines and checks whose MAC the clients have for the
// VIPs before any query is sent: a stolen VIP explains everything after it.
func (p *prover) neighbours(ctx context.Context, order []int) error {
	s := p.proofSetting(order)
	s.VIPs = 0
	words, err := prime(ctx, p.lab, p.cast, s)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return notReady(words)
	}
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	for _, c := range p.cast.clients {
		for _, vip := range p.cast.service.VIPs {
			var b client.Batch
			want := p.cast.hop(c, p.cast.director.noun, vip)
			ping(&b, vip)
			entry := client.Add(&b, proto.NeighRead, proto.NeighRef{Address: want.address, Dev: c.device})
			if err := p.lab.send(ctx, c.noun, &b); err != nil && !answered(err) {
				return err
			} else if err != nil {
				p.miss(c, vip, p.cast.service.RealServers[0])
				return vipSilent(c, vip, p.cast.director.noun, err)
			}
			if mac := entry.Value().MAC; mac != want.mac {
				p.miss(c, vip, p.cast.service.RealServers[0])
				return vipStolen(c, want, mac, p.cast)
			}
		}
	}
	return nil
}

// walk asks each backend from one client under one VIP: who are you (CHAOS
// id.server), and then for a record of the zone.
func (p *prover) walk(ctx context.Context, c part, vip netip.Addr, order []int) error {
	var doubt error
	for i := range proofTries {
		if i > 0 || p.stale {
			p.stale = false
			if _, err := p.fresh(ctx, p.proofServices(order)); err != nil {
				return err
			}
		}
		answers, err := p.ask(ctx, c, vip, len(order))
		if err != nil && !answered(err) {
			return err
		}
		at := len(answers) // the first query without an answer
		if err == nil {
			var witnesses []Witness
			if witnesses, at, err = p.judge(c, vip, answers); err == nil {
				p.proof.Witnesses = append(p.proof.Witnesses, witnesses...)
				for i := range witnesses {
					p.asked(c, vip, p.cast.service.RealServers[i], answers[i].LocalPort)
				}
				if p.proof.FirstAnswer.IsZero() {
					p.proof.FirstAnswer = time.Now()
				}
				return p.timely(c, vip, answers)
			}
		}
		doubt = err
		if portTwice(answers) {
			continue
		}
		server := order[at%len(order)]
		if err := p.diagnose(ctx, c, vip, server); err != nil {
			p.miss(c, vip, p.cast.service.RealServers[server])
			return err
		}
		// Alone the backend answers: something passed by, begin again.
	}
	return unsteady(c, vip, doubt)
}

// fresh carries out steps 2 to 6 for the proof's services.
func (p *prover) fresh(ctx context.Context, want []proto.IPVSService) (proto.IPVSFreshState, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	all := withNeighbours(p.lab.Topology, p.cast.service, want)
	state, err := do(ctx, p.lab, p.cast.director.noun, proto.IPVSFresh, proto.IPVSFreshSpec{
		Services: all, Sysctl: directorSysctls(p.lab.Topology, p.cast.director.noun), EmptyWithinMS: emptyWithin.Milliseconds(),
	})
	var words []string
	if err == nil {
		words = differences(all, state.Services)
	} else if words, err = failedWords(err); err != nil {
		return state, err
	}
	if len(words) > 0 {
		return state, notReady(words)
	}
	return state, nil
}

// ask sends two rounds of queries and returns the answers until the first
// query without one. Round one asks for the identity, round two for a record.
// An answer that is there already is the first one.
func (p *prover) ask(ctx context.Context, c part, vip netip.Addr, n int) ([]proto.QueryAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline+time.Duration(2*n)*probeTimeout)
	defer cancel()
	var answers []proto.QueryAnswer
	if p.hello != nil {
		answers, p.hello = append(answers, *p.hello), nil
	}
	var b client.Batch
	var futures []*client.Future[proto.QueryAnswer]
	for range n - len(answers) {
		futures = append(futures, client.Add(&b, proto.Query, p.identity(c, vip)))
	}
	if name, kind := warmName(p.lab.Topology, p.cast.service); name != "" {
		for range n {
			q := p.identity(c, vip)
			q.Name, q.Type, q.Class = name, kind, ""
			futures = append(futures, client.Add(&b, proto.Query, q))
		}
	}
	err := p.lab.send(ctx, c.noun, &b)
	for _, f := range futures {
		if f.Err() != nil {
			break
		}
		answers = append(answers, f.Value())
	}
	return answers, err
}

func (p *prover) identity(c part, vip netip.Addr) proto.QuerySpec {
	svc := p.cast.service
	return proto.QuerySpec{
		Server: vip, Port: svc.Port, From: c.addresses[0], Name: "id.server", Type: "TXT", Class: "CH",
		TCP: svc.Protocol == "tcp", NSID: true, TimeoutMS: probeTimeout.Milliseconds(),
	}
}

// judge compares the answers with what the walk must bring. With an error it
// returns the index of the answer that is wrong.
func (p *prover) judge(c part, vip netip.Addr, answers []proto.QueryAnswer) ([]Witness, int, error) {
	servers := p.cast.service.RealServers
	var out []Witness
	for i, a := range answers {
		want := servers[i%len(servers)].Backend
		if err := judgeOne(want, vip, a, i < len(servers)); err != nil {
			return nil, i, err
		}
		if i < len(servers) {
			out = append(out, Witness{c.noun, vip, want, vip, time.Duration(a.RTTUS) * time.Microsecond})
		}
	}
	return out, 0, nil
}

// errRefused is an answer by ICMP.
var errRefused = errors.New("the query was refused by ICMP")

// judgeOne judges an answer that must come from the backend under the VIP.
func judgeOne(want addr.Noun, vip netip.Addr, a proto.QueryAnswer, identity bool) error {
	if a.Refused {
		return errRefused
	}
	if f := symptom.JudgeAnswer(want, vip, a, identity); f != nil {
		return f.Failure(nil)
	}
	return nil
}

func portTwice(answers []proto.QueryAnswer) bool {
	seen := map[uint16]bool{}
	for _, a := range answers {
		if a.LocalPort != 0 && seen[a.LocalPort] {
			return true
		}
		seen[a.LocalPort] = true
	}
	return false
}
