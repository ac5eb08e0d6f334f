package ipvsmodel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is a conformance case: events for IPVS and what must come of them, one
// a line. docs/model.md tells the lines. It can be run against the model and,
// line by line, against a kernel.
type Script struct{ Steps []Step }

// Step is one line.
type Step struct {
	Line int
	// Verb is the first word, Args are the plain ones after it, Options those
	// with an equals sign, Want what stands after "->".
	Verb    string
	Args    []string
	Options map[string]string
	Want    []string
}

// ErrScript is a line that cannot be read or carried out.
var ErrScript = errors.New("bad line")

func (s Step) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %w: %w", s.Line, s.Verb, ErrScript, fmt.Errorf(format, args...))
}

// verbs are the lines that there are, with the number of plain arguments.
var verbs = map[string]int{
	"kernel": 1, "seed": 1, "name": 2, "service": 3, "edit": 3, "delete": 2, "clear": 0,
	"add": 3, "set": 3, "remove": 3, "timeouts": 0, "sysctl": 2, "wait": 1,
	"send": 3, "reply": 3, "tally": 0, "chances": 0, "rows": 1, "row": 3, "counters": 3,
}

// ParseScript reads a script. What follows # is a remark.
func ParseScript(r io.Reader) (Script, error) {
	var out Script
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		left, right, expects := strings.Cut(text, "->")
		words := strings.Fields(left)
		if len(words) == 0 {
			if expects {
				return out, Step{Line: n}.errorf("-> without an event")
			}
			continue
		}
		s := Step{Line: n, Verb: words[0], Options: map[string]string{}, Want: strings.Fields(right)}
		for _, w := range words[1:] {
			if k, v, ok := strings.Cut(w, "="); ok {
				s.Options[k] = v
			} else {
				s.Args = append(s.Args, w)
			}
		}
		count, known := verbs[s.Verb]
		if !known {
			return out, s.errorf("no such event")
		}
		if len(s.Args) != count {
			return out, s.errorf("takes %d words, got %d", count, len(s.Args))
		}
		out.Steps = append(out.Steps, s)
	}
	return out, lines.Err()
}

// Run carries the script out on a model of its own and returns what came out
// differently from what it says, one sentence each.
func (s Script) Run() ([]string, error) {
	return s.RunOn(New(Kernel{}, 1))
}

// RunOn does the same on another target, which has to be empty. The words
// kernel and seed are refused ([ErrUnknown]) unless it is a [Model].
func (s Script) RunOn(t Target) ([]string, error) {
	r := &runner{model: t, names: map[string]netip.AddrPort{}, tally: map[string]int{}}
	for _, step := range s.Steps {
		if err := r.step(step); err != nil {
			return r.wrong, err
		}
	}
	return r.wrong, nil
}

type runner struct {
	model Target
	now   time.Duration
	names map[string]netip.AddrPort
	tally map[string]int
	wrong []string
}

func (r *runner) differ(s Step, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf("line %d: ", s.Line)+fmt.Sprintf(format, args...))
}

func (r *runner) step(s Step) error {
	var err error
	switch s.Verb {
	case "kernel", "seed":
		err = r.renew(s)
	case "name":
		r.names[s.Args[0]], err = netip.ParseAddrPort(s.Args[1])
	case "clear":
		r.model.Clear()
	case "wait":
		var d time.Duration
		if d, err = time.ParseDuration(s.Args[0]); err == nil && d >= 0 && r.now+d >= r.now {
			r.now += d
			r.model.Advance(r.now)
		}
	case "timeouts":
		err = r.timeouts(s)
	case "sysctl":
		var n int
		if n, err = strconv.Atoi(s.Args[1]); err == nil {
			err = r.model.SetSysctl(s.Args[0], n)
		}
	case "send", "reply":
		err = r.send(s)
	case "tally":
		r.compare(s)
	case "chances":
		err = r.chances(s)
	case "row":
		err = r.row(s)
	case "rows":
		var n int
		if n, err = strconv.Atoi(s.Args[0]); err == nil && n != len(r.model.Entries()) {
			r.differ(s, "%d rows, want %d", len(r.model.Entries()), n)
		}
	default:
		err = r.control(s)
	}
	if err != nil && !errors.Is(err, ErrScript) {
		err = s.errorf("%w", err)
	}
	return err
}

// renew puts another model in place of the one there.
func (r *runner) renew(s Step) error {
	m, ok := r.model.(*Model)
	if !ok {
		return fmt.Errorf("%s %w", s.Verb, ErrUnknown)
	}
	if s.Verb == "kernel" {
		r.model = New(Kernel{Before2026: s.Args[0] == "before-2026"}, 1)
		return nil
	}
	n, err := strconv.ParseUint(s.Args[0], 10, 64)
	if err == nil {
		r.model = New(m.kernel, n)
	}
	return err
}

// row looks for the row of a flow and says where it leads.
func (r *runner) row(s Step) error {
	client, err := netip.ParseAddrPort(s.Args[1])
	if err != nil {
		return err
	}
	vip, err := netip.ParseAddrPort(s.Args[2])
	if err != nil {
		return err
	}
	got := "none"
	for _, e := range r.model.Entries() {
		if e.Protocol.String() == s.Args[0] && e.Client == client && e.VIP == vip {
			got = r.word(Decision{Backend: e.Backend})
		}
	}
	if len(s.Want) != 1 || s.Want[0] != got {
		r.differ(s, "got %s, want %s", got, strings.Join(s.Want, " "))
	}
	return nil
}

// control is everything about services and destinations.
func (r *runner) control(s Step) error {
	k, err := key(s)
	if err != nil {
		return err
	}
	switch s.Verb {
	case "service", "edit":
		spec, err := serviceOf(s)
		if err != nil {
			return err
		}
		if s.Verb == "edit" {
			return r.model.EditService(k, spec)
		}
		return r.model.AddService(k, spec)
	case "delete":
		return r.model.DeleteService(k)
	case "counters":
		return r.counters(s, k)
	}
	at, err := r.backend(s.Args[2])
	if err != nil {
		return err
	}
	if s.Verb == "remove" {
		return r.model.DeleteDestination(k, at)
	}
	d, err := destinationOf(s, at)
	if err != nil {
		return err
	}
	if s.Verb == "set" {
		return r.model.EditDestination(k, d)
	}
	return r.model.AddDestination(k, d)
}

func (r *runner) backend(word string) (netip.AddrPort, error) {
	if a, ok := r.names[word]; ok {
		return a, nil
	}
	return netip.ParseAddrPort(word)
}

// word is how a decision is written: the backend's name, or what else happens.
func (r *runner) word(d Decision) string {
	if d.Why > ByTemplate {
		return strings.ReplaceAll(d.Why.String(), " ", "-")
	}
	for name, a := range r.names {
		if a == d.Backend {
			return name
		}
	}
	return d.Backend.String()
}

// send lets packets arrive: of each port of a range in turn, as often as asked.
func (r *runner) send(s Step) error {
	p := Packet{Reply: s.Verb == "reply"}
	var err error
	if p.Protocol, err = protocol(s.Args[0]); err != nil {
		return err
	}
	clients, err := clientsOf(s.Args[1])
	if err != nil {
		return err
	}
	if p.VIP, err = netip.ParseAddrPort(s.Args[2]); err != nil || !p.VIP.Addr().Is4() {
		return s.errorf("%q is no address and port", s.Args[2])
	}
	times, mark, err := 1, 0, error(nil)
	if v, ok := s.Options["times"]; ok {
		if times, err = strconv.Atoi(v); err != nil || times > maxSends {
			return s.errorf("times=%s", v)
		}
	}
	if v, ok := s.Options["mark"]; ok {
		if mark, err = strconv.Atoi(v); err != nil {
			return s.errorf("mark=%s", v)
		}
	}
	if p.Mark = uint32(mark); times*len(clients) > maxSends {
		return s.errorf("more than %d packets", maxSends)
	}
	if p.Flags, err = flagsOf(s.Options["flags"]); err != nil {
		return err
	}
	var got []string
	for range times {
		for _, p.Client = range clients {
			w := r.word(r.model.Packet(r.now, &p))
			r.tally[w]++
			got = append(got, w)
		}
	}
	if len(s.Want) > 0 && !slices.Equal(got, s.Want) {
		r.differ(s, "got %s, want %s", strings.Join(got, " "), strings.Join(s.Want, " "))
	}
	return nil
}

// maxSends bounds what one line may send.
const maxSends = 1 << 20

// compare holds what has been sent since the last tally against what the line says.
func (r *runner) compare(s Step) {
	want := map[string]int{}
	for k, v := range s.Options {
		want[k], _ = strconv.Atoi(v)
	}
	for _, k := range sortedKeys(want, r.tally) {
		if want[k] != r.tally[k] {
			r.differ(s, "%s %d times, want %d", k, r.tally[k], want[k])
		}
	}
	clear(r.tally)
}

func sortedKeys(maps ...map[string]int) []string {
	var out []string
	for _, m := range maps {
		for k := range m {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *runner) counters(s Step, k Key) error {
	at, err := r.backend(s.Args[2])
	if err != nil {
		return err
	}
	all, err := r.model.Counts(k)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Address != at {
			continue
		}
		got := map[string]int{"active": c.Active, "inactive": c.Inactive, "persistent": c.Persistent, "conns": int(c.Connections), "packets": int(c.Packets)}
		for name, v := range s.Options {
			if have, ok := got[name]; !ok || strconv.Itoa(have) != v {
				r.differ(s, "%s is %d, want %s", name, have, v)
			}
		}
		return nil
	}
	return s.errorf("%v %w", at, ErrMissing)
}
