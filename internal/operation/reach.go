package operation

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// machines returns the lab's machines by address, in order.
func (l lab) machines() ([]addr.Noun, map[addr.Noun]state.Resource) {
	var order []addr.Noun
	by := map[addr.Noun]state.Resource{}
	for _, r := range l.state.Resources {
		if r.Type == schema.TypeDomain {
			order = append(order, r.Addr.Noun)
			by[r.Addr.Noun] = r
		}
	}
	slices.SortFunc(order, addr.Noun.Compare)
	return order, by
}

// machine checks that the state has a machine of that address.
func (l lab) machine(node string) (schema.Domain, error) {
	order, by := l.machines()
	for _, n := range order {
		if n.String() == node {
			v, err := by[n].Value(schema.DomainSchema)
			if err != nil {
				return schema.Domain{}, err
			}
			return schema.DomainFrom(v)
		}
	}
	return schema.Domain{}, l.noSuchNode(node, order)
}

func (l lab) noSuchNode(node string, order []addr.Noun) error {
	if len(order) == 0 {
		return diag.Fail(diag.Told(errNotUp), "The lab is not up", "Bring it up with 'lvslab apply --keep'.", "lab %s has no machines", l.state.Lab)
	}
	have := make([]string, len(order))
	for i, n := range order {
		have[i] = n.String()
	}
	remedy := "Use one of " + strings.Join(have, ", ") + "."
	if n, err := addr.ParseNoun(node); err != nil || !n.Kind.Machine() {
		remedy += " Quote brackets for the shell."
	}
	return diag.Fail(nil, "No such node", remedy, "%q is not a machine of lab %s", node, l.state.Lab)
}

// allMachines is the word for every machine of a lab.
const allMachines = "all"

// group returns the machines that a user's word stands for: a machine, a block or
// a module (backend.ns, module.site), a kind (backend), all of them, or a list of
// such words with commas between. one says that the word is the address of a single
// machine.
func (l lab) group(words string) (nodes []string, one bool, err error) {
	order, _ := l.machines()
	var picked []addr.Noun
	for _, word := range splitWords(words) {
		found := slices.DeleteFunc(slices.Clone(order), func(n addr.Noun) bool { return !stands(word, n) })
		if len(found) == 0 {
			return nil, false, l.noSuchNode(word, order)
		}
		for _, n := range found {
			if !slices.Contains(picked, n) {
				picked = append(picked, n)
			}
		}
	}
	for _, n := range picked {
		nodes = append(nodes, n.String())
	}
	return nodes, len(nodes) == 1 && nodes[0] == words, nil
}

// stands reports whether a word stands for a machine.
func stands(word string, n addr.Noun) bool {
	if word == allMachines || word == string(n.Kind) {
		return true
	}
	w, err := addr.ParseNoun(word)
	return err == nil && w.Covers(n)
}

// splitWords cuts a list at the commas that are not within the quotes of a key.
func splitWords(s string) []string {
	var out []string
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// userLine is a user port of a machine that this process has claimed, and what
// is needed to speak with the machine behind it.
type userLine struct {
	spec    client.DialSpec
	release func()
}

// claimLine takes one of a machine's user ports. command is what others are told
// about its use.
func (l lab) claimLine(ctx context.Context, node string, d schema.Domain, command string) (*userLine, error) {
	holder, err := findHolder(ctx, l.state.Lineage)
	if err != nil {
		return nil, err
	}
	if _, foreign := foreignURI(l.state); holder == nil && !foreign {
		return nil, diag.Fail(diag.Told(errNotUp), "The lab is not up", "Apply it again with --keep.", "the hypervisor of lab %s has ended", l.state.Lab)
	}
	keys, err := openKeys(l.dir, nil)
	if err != nil {
		return nil, err
	}
	host, err := keys.host(d.Address)
	if err != nil {
		return nil, err
	}
	own, err := keys.client()
	if err != nil {
		return nil, err
	}
	claim, err := client.ClaimUserPort(filepath.Join(l.dir, "ports"), d.Address, command)
	if err != nil {
		return nil, err
	}
	far, giveBack, err := l.take(ctx)
	if err != nil {
		claim.Release()
		return nil, err
	}
	path := filepath.Join(socketDir(l.state.Lineage, far != nil), hypervisor.ChannelFile(d.Name, claim.Port))
	if holder != nil {
		path = holder.ChannelSocket(d.Name, claim.Port)
	}
	var place libvirt.Place = libvirt.Here{}
	if far != nil {
		place = far
	}
	return &userLine{release: func() { claim.Release(); giveBack() }, spec: client.DialSpec{
		Node: node, ClientKey: own.Private, HostKey: host.Public,
		Open: func(ctx context.Context) (net.Conn, error) { return place.Dial(ctx, path) },
	}}, nil
}

// dialUser connects to one of a machine's user ports.
func (l lab) dialUser(ctx context.Context, node string, d schema.Domain, command string) (*client.Conn, func(), error) {
	line, err := l.claimLine(ctx, node, d, command)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, userContact)
	defer cancel()
	conn, err := client.Dial(ctx, line.spec)
	if err != nil {
		line.release()
		return nil, nil, notSetUp(node, err)
	}
	return conn, func() { conn.Close(); line.release() }, nil
}

// notSetUp says what a guest without an identity means to a user.
func notSetUp(node string, err error) error {
	if !errors.Is(err, client.ErrNotEnrolled) {
		return err
	}
	return diag.Fail(diag.Told(err), node+" has not been set up", "Apply again; 'lvslab logs "+quoteNode(node)+"' shows what happened to it.",
		"it has booted since the last apply and has neither keys nor settings")
}

// quoteNode quotes brackets for the shell.
func quoteNode(n string) string {
	if strings.ContainsAny(n, `["`) {
		return "'" + n + "'"
	}
	return n
}
