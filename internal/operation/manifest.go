package operation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/verdict"
	"github.com/lvslab/lvslab/internal/version"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/provider/schema"
)

// manifest gathers the conditions of the study while the lab is up.
func (a *applying) manifest(ctx context.Context) (artifact.Manifest, error) {
	st := a.store.State()
	m := artifact.Manifest{
		Lineage: st.Lineage, Study: a.list.hash, StartedAt: a.Started.UTC().Truncate(time.Microsecond),
		Images: a.imageDigests(), Accelerator: string(a.accel),
		Seeds: map[string]int64{}, Isolation: map[string]string{}, Renewed: a.boots, DestinationOrder: map[string][]string{}, Addresses: map[string]string{},
		Timings: a.timings,
	}
	for slot, ip := range a.study.addresses {
		m.Addresses[slot] = ip.String()
	}
	for _, svc := range a.study.topology.Services {
		for _, vip := range svc.VIPs {
			m.Addresses[svc.Noun.String()+"/"+vip.String()] = vip.String()
		}
		for _, r := range svc.RealServers {
			m.DestinationOrder[svc.Noun.String()] = append(m.DestinationOrder[svc.Noun.String()], r.Backend.String())
		}
	}
	for _, e := range a.study.topology.Experiments {
		m.Seeds[e.Noun.Name()], m.Isolation[e.Noun.Name()] = e.Seed, e.Isolation
	}
	m.RunOrder, m.Shard, m.BlockOrder = a.made, a.opts.Shard.String(), map[string]string{}
	for name, squares := range a.list.squares {
		m.BlockOrder[name] = artifact.OrderShuffle
		if squares {
			m.BlockOrder[name] = artifact.OrderSquares
		}
	}
	if err := a.descent(&m); err != nil {
		return m, err
	}
	m.Topology = a.topologyHash()
	m.Clones = clonesOf(st)
	if a.host != nil {
		m.GuestSeeds = a.host.nodes.guestSeeds()
	}
	m.Versions, m.Sysctls = a.versions(ctx)
	m.Host = a.hostFacts()
	if a.unsealed() { // there is no lab to ask: what was known before the runs
		was := a.unfinished.Draft()
		m.Versions, m.Sysctls, m.Host, m.Clones, m.GuestSeeds, m.Timings = was.Versions, was.Sysctls, was.Host, was.Clones, was.GuestSeeds, was.Timings
		m.Lineage, m.Images, m.Addresses = was.Lineage, was.Images, was.Addresses
	}
	return m, nil
}

// descent is what a result has from those before it: its parent, and the start of
// the first of its own sessions.
func (a *applying) descent(m *artifact.Manifest) (err error) {
	switch {
	case a.unfinished != nil:
		was := a.unfinished.Manifest()
		m.Parent, m.StartedAt = was.Parent, was.StartedAt
	case a.parent != nil:
		m.Parent, err = artifact.ParentOf(a.parent)
	}
	return err
}

// clonesOf returns which machines of the state are clones, and of what.
func clonesOf(st state.State) map[string]string {
	out := map[string]string{}
	for _, r := range st.Resources {
		if r.Type != schema.TypeDomain {
			continue
		}
		v, err := r.Value(schema.DomainSchema)
		if err != nil {
			continue
		}
		if d, err := schema.DomainFrom(v); err == nil && d.Template != "" {
			out[r.Addr.Noun.String()] = d.Template
		}
	}
	return out
}

// topologyHash is the resolved topology's own: the study's hash without an
// experiment and without conditions.
func (a *applying) topologyHash() string {
	return experiment.StudyHash(a.study.topology, lang.Experiment{}, experiment.StudyKey{})
}

// askWithin bounds the questions about versions: they must not keep a study
// from being sealed when a guest has died.
const askWithin = 20 * time.Second

// hostVersions is what is known without a lab.
func hostVersions() artifact.Versions {
	v := artifact.Versions{Lvslab: version.Version, QEMU: qemuVersion()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		v.HostKernel = unix.ByteSliceToString(u.Release[:])
	}
	return v
}

// qemuVersion asks QEMU once: it takes a tenth of a second to say.
var qemuVersion = sync.OnceValue(func() string {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(first, "QEMU emulator version ")
})

// versions asks host and guests what took part. What does not answer stays empty.
func (a *applying) versions(ctx context.Context) (artifact.Versions, map[string]map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	v := a.hostVersions()
	if a.host == nil {
		return v, nil
	}
	if lv, err := a.host.conn.Version(ctx); err == nil {
		v.Libvirt = lv
	}
	// What is in the image is known by package, without asking: starting three
	// programs for their version costs an emulated guest two seconds.
	v.GuestKernel, v.GuestKernels = a.image.KernelRelease, a.kernels()
	v.DNSPerf, v.IPVSAdm = a.image.Packages["dnsperf"], a.image.Packages["ipvsadm"]
	v.Named, v.NameServers = a.nameServers()
	var mu sync.Mutex
	var wg sync.WaitGroup
	sysctls := map[string]map[string]string{}
	for _, machine := range a.study.topology.Machines {
		wg.Go(func() {
			values, ipvs := a.askGuest(ctx, machine)
			mu.Lock()
			defer mu.Unlock()
			sysctls[machine.Noun.String()] = values
			if ipvs != "" {
				v.IPVS = ipvs
			}
		})
	}
	wg.Wait()
	return v, sysctls
}

// nameServers are the version of BIND and those of the other name servers, by
// machine, out of the images that they run in.
func (a *applying) nameServers() (named string, others map[string]string) {
	for _, m := range a.study.topology.Machines {
		if len(m.Serves) == 0 {
			continue
		}
		pkg := images.ServerPackage(m.Server)
		switch version := a.guestOf(m).image.Packages[pkg]; {
		case m.Server != "":
			if others == nil {
				others = map[string]string{}
			}
			others[m.Noun.String()] = strings.TrimSpace(pkg + " " + version)
		case named == "":
			named = version
		}
	}
	return named, others
}

// snapshotSysctls are read back from every machine for the manifest.
var snapshotSysctls = []string{
	"net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter",
	"net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce", "net.ipv4.conf.all.send_redirects",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.vs.expire_nodest_conn", "net.ipv4.vs.conn_reuse_mode", "net.ipv4.vs.expire_quiescent_template",
	"net.ipv4.vs.conntrack", "net.ipv4.vs.run_estimation", "net.ipv4.vs.drop_entry", "net.ipv4.vs.drop_packet",
	"net.ipv4.vs.secure_tcp", "net.ipv4.vs.pmtu_disc", "net.ipv4.vs.sloppy_tcp", "net.ipv4.vs.schedule_icmp",
}

// askGuest reads a machine's parameters and, on a director, the version of IPVS.
func (a *applying) askGuest(ctx context.Context, m lang.Machine) (sysctls map[string]string, ipvs string) {
	var b client.Batch
	values := client.Add(&b, proto.SysctlRead, snapshotSysctls)
	var info *client.Future[proto.IPVSInfo]
	if m.Noun.Kind == addr.Director {
		info = client.Add(&b, proto.IPVSPreflight, proto.IPVSNeeds{})
	}
	_ = b.Run(ctx, a.host.nodes.node(m.Noun)) // what does not answer stays empty
	if info != nil {
		ipvs = info.Value().Version
	}
	return values.Value(), ipvs
}

// facts are what the verdicts must know about each experiment.
func (a *applying) facts() []verdict.Facts {
	var out []verdict.Facts
	for _, e := range a.study.topology.Experiments {
		svc, _ := a.study.topology.Service(e.Service)
		f := verdict.Facts{
			Experiment: e.Noun.Name(), Service: e.Service.String(), Scheduler: svc.Scheduler, OnePacket: svc.OnePacket,
			Flags: svc.Flags, Protocol: e.Load.Protocol, Forward: svc.Forward, Persistence: svc.Persistence != nil,
			Blocks: a.blocks(e), Accelerator: string(a.accel),
		}
		f.EqualWithin = e.EqualWithin
		if c := e.Controls; c != nil {
			f.Controls = &verdict.Controls{AA: c.AA, Rotate: c.Rotate, Direct: c.Direct}
		}
		for _, vip := range svc.VIPs {
			f.VIPs = append(f.VIPs, vip.String())
		}
		for _, factor := range e.Factors {
			f.Factors = append(f.Factors, factor.Name)
		}
		treatments, _ := experiment.Treatments(a.study.topology, e) // checked before the first effect
		for _, t := range treatments {
			sources := t.Setting.Sources(a.study.topology, e)
			f.ClientAddresses = max(f.ClientAddresses, sources)
			f.Treatments = append(f.Treatments, verdict.Treatment{
				ID: t.ID, StandsFor: t.StandsFor, Factors: t.Factors, Scheduler: t.Setting.Scheduler, OnePacket: t.Setting.OnePacket,
				Flags: t.Setting.Flags, VIPs: t.Setting.VIPs, ClientAddresses: sources,
			})
		}
		out = append(out, f)
	}
	return out
}

// blocks is how many blocks of an experiment the result has, with its parents'.
func (a *applying) blocks(e lang.Experiment) int {
	seen := map[int]bool{}
	for _, t := range a.ofShare().of(e) {
		seen[t.Block] = true
	}
	before := a.parent
	if a.unfinished != nil {
		before = a.unfinished.Artifact
	}
	if before != nil {
		for _, r := range before.Runs() {
			if r.Experiment == e.Noun.Name() {
				seen[r.Block] = true
			}
		}
	}
	return len(seen)
}

// inputName is a source file's name inside the artifact: its path from the
// topology's directory, where what lies above that is in directories called up.
func inputName(root, name string) string {
	if b, ok := strings.CutPrefix(name, builtinPrefix); ok {
		return b + lang.Extension
	}
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return filepath.Base(name)
	}
	steps := strings.Split(filepath.ToSlash(rel), "/")
	for i, s := range steps {
		if s == ".." {
			steps[i] = "up"
		}
	}
	return strings.Join(steps, "/")
}

func variablesJSON(vars map[string]cty.Value) ([]byte, error) {
	out := map[string]json.RawMessage{}
	for name, v := range vars {
		raw, err := valueJSON(v)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		out[name] = raw
	}
	b, err := json.MarshalIndent(out, "", "  ")
	return append(b, '\n'), err
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
