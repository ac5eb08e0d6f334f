package experiment

import (
	"context"
	"errors"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

const (
	// captureMB bounds a capture's memory in the client. 1,000 queries and
	// their answers take about 0.3 MB; larger loads get more, see captureBound.
	captureMB = 16
	// mostCaptureMB leaves a guest of 256 MiB enough to live on.
	mostCaptureMB = 96
	// bytesPerQuery is what a query and its answer take in a capture, rounded
	// up: two frames of 100 to 200 bytes, over TCP some ten small ones more.
	bytesPerQuery = 1024
)

// releaseOf is where the running kernel tells what uname -r says
// (Documentation/admin-guide/sysctl/kernel.rst).
const releaseOf = "kernel.osrelease"

// baseline is what stood on the counters before the load, and the read-back of
// the director: the proof that steps 2 to 6 were done.
type baseline struct {
	fresh    proto.IPVSFreshState
	counters map[addr.Noun]proto.CounterSet
	capture  string // id of the running captures
	kernel   string // of the director, uname -r
}

// prepare carries out steps 2 to 6 in one round trip to all machines: the
// director makes the services anew, while the others give their baselines and
// the clients receive their query files and start to capture. Nothing is
// disturbed by that: between step 1 and the load nobody sends a query.
// What does not hold is returned in words, and no capture is left running.
func (m *machinery) prepare(ctx context.Context, c *cast, s Setting, loads []process, captureID string) (*baseline, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	want := withNeighbours(m.lab.Topology, c.service, services(m.lab.Topology, c.service, s))
	base := &baseline{counters: map[addr.Noun]proto.CounterSet{}, capture: captureID}
	r := m.lab.round()
	fresh := client.Add(r.on(c.director.noun), proto.IPVSFresh, proto.IPVSFreshSpec{
		Services: want, Sysctl: directorSysctls(m.lab.Topology, c.director.noun), EmptyWithinMS: emptyWithin.Milliseconds(),
	})
	kernel := client.Add(r.on(c.director.noun), proto.SysctlRead, []string{releaseOf})
	for _, n := range c.translators(s) {
		client.Add(r.on(n), proto.MasqueradeForget, proto.None{})
	}
	readings := map[addr.Noun]*client.Future[proto.CounterSet]{}
	logs := map[addr.Noun]*client.Future[[]proto.KernelLine]{}
	for _, p := range c.parts(s) {
		b := r.on(p.noun)
		logs[p.noun] = client.Add(b, proto.KernelLog, proto.KernelLogSpec{Since: m.since(p.noun)})
		readings[p.noun] = client.Add(b, proto.Counters, c.counters(p))
	}
	var uploads []process
	for _, p := range loads {
		if m.lacks(p) {
			client.Add(r.on(p.client), proto.FileWrite, proto.FileBody{Path: p.Path, Data: p.Lines})
			uploads = append(uploads, p)
		}
	}
	for _, p := range c.only(s.Clients) {
		client.Add(r.on(p.noun), proto.CaptureStart, proto.CaptureSpec{
			ID: captureID, Dev: p.device, Port: c.service.Port, MaxMB: captureBound(s),
		})
	}
	err := r.run(ctx)
	if err == nil {
		for _, p := range uploads {
			m.has(p)
		}
	}
	base.fresh, base.kernel = fresh.Value(), kernel.Value()[releaseOf]
	for n, f := range readings {
		base.counters[n] = f.Value()
	}
	for n, f := range logs {
		m.seen(n, f.Value())
	}
	var failed []string
	if err != nil {
		failed, err = failedWords(err)
	} else {
		failed = append(differences(want, base.fresh.Services), m.pristine(c.director.noun, base.fresh)...)
		failed = append(failed, m.kernelWanted(c.director.noun, s, base.kernel)...)
	}
	if err != nil || len(failed) > 0 {
		return nil, failed, errors.Join(err, m.dropCaptures(ctx, c, s, captureID))
	}
	return base, nil, nil
}

// dropCaptures ends the captures of a try that goes no further. A client that
// has none under that id is fine.
func (m *machinery) dropCaptures(ctx context.Context, c *cast, s Setting, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	r := m.lab.round()
	for _, p := range c.only(s.Clients) {
		client.Add(r.on(p.noun), proto.CaptureStop, proto.CaptureRef{ID: id})
	}
	if err := r.run(ctx); err != nil && !answered(err) {
		return err
	}
	return nil
}

// parts are the machines that take part in a run, the director first.
func (c *cast) parts(s Setting) []part {
	return append(append([]part{c.director}, c.only(s.Clients)...), c.backends...)
}

func captureBound(s Setting) int {
	return min(max(captureMB, s.Queries*bytesPerQuery>>20+1), mostCaptureMB)
}
