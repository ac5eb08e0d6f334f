package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/internal/remote"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/libvirt"
	"github.com/lvslab/lvslab/provider/schema"
)

// abroad is what one lineage has on a libvirt of the user's own, as the marks of
// its machines and networks tell.
type abroad struct {
	lineage string
	dir     string // of the lab; "" when no mark tells
	// making is the directory of the template that is made in it, "" for a lab.
	making string
	// elsewhere says that its directory is on another machine than this one.
	elsewhere bool
	things    []libvirt.Owned
}

// templateLineage begins the lineages of machines that templates are made of.
const templateLineage = "template-"

// entry is the lab in the form of the machine's registry, so that the same rules
// decide whether it is passed over.
func (l abroad) entry() hypervisor.Entry {
	lab := ""
	if l.dir != "" {
		lab = filepath.Base(l.dir)
	}
	return hypervisor.Entry{Holder: hypervisor.Holder{Lineage: l.lineage, Lab: lab, LabDir: l.dir}, Status: hypervisor.Running}
}

func (l abroad) String() string {
	machines := 0
	for _, o := range l.things {
		if o.Type == schema.TypeDomain {
			machines++
		}
	}
	where := cmp.Or(l.dir, "lineage "+l.lineage)
	return fmt.Sprintf("%s (%s, %d machines, %d networks)", cmp.Or(l.entry().Lab, "template"), where, machines, len(l.things)-machines)
}

// consulate is a connection to a libvirt of the user's own on which labs are looked
// for by their marks.
type consulate struct {
	uri  string
	host *remote.Host // nil when it is on this machine
	conn *libvirt.Conn
}

func openConsulate(ctx context.Context, uri string) (*consulate, error) {
	host, err := openHost(ctx, uri)
	if err != nil {
		return nil, err
	}
	c := &consulate{uri: uri, host: host}
	if c.conn, err = libvirt.DialAt(ctx, c.place(), uri); err != nil {
		if host != nil {
			host.Close()
		}
		return nil, err
	}
	return c, nil
}

func (c *consulate) place() libvirt.Place {
	if c.host == nil {
		return libvirt.Here{}
	}
	return c.host
}

func (c *consulate) close() {
	if c == nil {
		return
	}
	c.conn.Close()
	if c.host != nil {
		c.host.Close()
	}
}

// labs lists what bears marks, by lineage.
func (c *consulate) labs(ctx context.Context) ([]abroad, error) {
	if c == nil {
		return nil, nil
	}
	owned, err := libvirt.New(c.conn, libvirt.Options{Place: c.place()}).ListOwned(ctx, "")
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	var out []abroad
	for _, o := range owned {
		i, seen := index[o.Lineage]
		if !seen {
			i = len(out)
			index[o.Lineage] = i
			out = append(out, abroad{lineage: o.Lineage})
		}
		l := &out[i]
		l.things = append(l.things, o)
		if strings.HasPrefix(o.Lineage, templateLineage) {
			l.making = cmp.Or(l.making, filepath.Dir(o.Console))
		} else {
			dir, elsewhere := fromLabel(o.Dir)
			l.dir, l.elsewhere = cmp.Or(l.dir, dir), l.elsewhere || elsewhere
		}
	}
	return out, nil
}

// remove removes what a lineage has there, machines first.
func (c *consulate) remove(ctx context.Context, l abroad) error {
	ctx, cancel := context.WithTimeout(ctx, discardWithin)
	defer cancel()
	if l.making != "" {
		return libvirt.New(c.conn, foreignOptions(l.lineage, nil)).DiscardTemplate(ctx, l.lineage)
	}
	dir := channelDir(l.lineage)
	opts := libvirt.Options{
		ChannelPath: func(domain, port string) string { return filepath.Join(dir, hypervisor.ChannelFile(domain, port)) },
		Pipe:        pipesIn(dir),
	}
	if c.host != nil {
		opts = farOptions(c.host, l.lineage)
	}
	p := libvirt.New(c.conn, opts)
	var errs []error
	for _, o := range l.things {
		if err := p.RemoveOwned(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", o.Type, o.Name, err))
		}
	}
	if c.host != nil && len(errs) == 0 {
		return clearFar(ctx, c.host, l.lineage)
	}
	_ = os.Remove(runDir()) // the directory of the sockets' directories, when that was the last
	return errors.Join(errs...)
}

// passOverAbroad is [passOver] for what is on a libvirt of the user's own.
func passOverAbroad(l abroad, named []string) (string, error) {
	if l.making != "" {
		if _, err := os.Stat(l.making); err == nil {
			return "the template is in " + l.making, nil // with its files
		}
		if len(named) > 0 {
			return "it was not named", nil
		}
		return "", nil
	}
	if l.elsewhere {
		if isNamed(l.entry(), named) {
			return "", nil
		}
		return "it was made from another machine, whose " + l.dir + " has its state; name it to remove it", nil
	}
	if l.dir == "" {
		return "its marks do not tell where its state is", nil
	}
	return passOver(l.entry(), named)
}

// defaultURI returns the libvirt that the user's other programs talk to.
func (s *Settings) defaultURI() string {
	for _, e := range s.Environ {
		if uri, ok := strings.CutPrefix(e, "LIBVIRT_DEFAULT_URI="); ok {
			return uri
		}
	}
	return ""
}

// consulate connects to the libvirt that was named; without one to the user's
// default one, if that can be reached. It is nil when there is none.
func (s *Settings) consulate(ctx context.Context, named string) (*consulate, error) {
	uri := cmp.Or(named, s.defaultURI())
	if uri == "" || uri == embeddedURI {
		return nil, nil
	}
	c, err := openConsulate(ctx, uri)
	if err != nil && named == "" {
		s.warn(diag.Diagnostics{diag.Warnf("Labs on "+uri+" were not looked for", "Name another libvirt with --connect, or unset LIBVIRT_DEFAULT_URI.", "%s", inOneLine(err))})
		return nil, nil
	}
	return c, err
}

// destroyWithoutState takes down a lab whose state is lost or damaged: what is
// left of it tells by its marks that it is of that directory. damage is the
// state's error, nil when there is no state.
func (s *Settings) destroyWithoutState(ctx context.Context, ref, dir string, damage error, o DestroyOptions) (Exit, error) {
	if holder, held, err := state.Held(dir); err != nil || held {
		return ExitError, errors.Join(err, diag.Fail(damage, "Another process works on this lab", "Wait until it has ended.", "%s", holder))
	}
	c, err := s.consulateOf(ctx, ref)
	if err != nil {
		return ExitError, errors.Join(damage, err)
	}
	defer c.close()
	l := leftovers{consulate: c}
	entries, err := hypervisor.List(ctx)
	if err != nil {
		return ExitError, errors.Join(damage, err)
	}
	for _, e := range entries {
		if e.LabDir == dir && !e.Bound() {
			l.holders = append(l.holders, e)
		}
	}
	labs, err := c.labs(ctx)
	if err != nil {
		return ExitError, errors.Join(damage, err)
	}
	for _, found := range labs {
		if found.dir == dir && found.making == "" && !found.elsewhere {
			l.abroad = append(l.abroad, found)
		}
	}
	if l.empty() {
		if damage == nil {
			s.Events.Emit(NoticeEvent{Text: "Nothing to destroy: this lab was never applied here."})
			return ExitDone, nil
		}
		return ExitError, damage
	}
	if err := agree(ctx, o.AutoApprove, o.Confirm, "Destroy", l); err != nil {
		return ExitError, err
	}
	failed := append(s.remove(context.WithoutCancel(ctx), l), damage)
	if err := errors.Join(failed...); err != nil {
		return ExitError, err
	}
	return ExitDone, nil
}

// consulateOf connects to the libvirt that a topology names; it is nil when the lab
// lives on its own hypervisor, or when that cannot be told without its variables.
func (s *Settings) consulateOf(ctx context.Context, ref string) (*consulate, error) {
	if ref == "" {
		return nil, nil
	}
	st, err := s.parse(ref)
	if err == nil {
		err = s.resolve(st, state.State{Lineage: state.NewLineage()})
	}
	if err != nil {
		return s.consulate(ctx, "")
	}
	if uri := st.topology.Provider.URI; uri != embeddedURI {
		return openConsulate(ctx, uri)
	}
	return nil, nil
}
