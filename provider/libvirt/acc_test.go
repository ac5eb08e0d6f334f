package libvirt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/vishvananda/netlink"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/provider"
	"github.com/lvslab/lvslab/provider/schema"
)

func acceptance(t *testing.T) {
	t.Helper()
	vmtest.Need(t)
}

// lab is a holder with a provider on it.
type lab struct {
	*Provider
	holder  *hypervisor.Holder
	image   images.Image
	lineage string
	dir     string
}

func newLab(t *testing.T, lineage string) *lab {
	t.Helper()
	acceptance(t)
	t.Setenv("LVSLAB_REGISTRY", filepath.Join(t.TempDir(), "registry"))
	cache, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	img, err := images.Build(t.Context(), images.Debian12, images.Options{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{image: img, lineage: lineage, dir: t.TempDir()}
	began := time.Now()
	l.holder, err = hypervisor.Start(t.Context(), hypervisor.Options{
		Identity: hypervisor.Identity{Lineage: lineage, Lab: lineage, LabDir: l.dir}, CacheDir: cache,
		Progress: func(step string, since time.Duration) { t.Logf("holder: %s after %s", step, since) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("holder started in %s", time.Since(began))
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := l.holder.LogTail(40)
			t.Logf("holder's log:\n%s", log)
		}
		if err := l.holder.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := Dial(t.Context(), l.holder.LibvirtSocket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l.Provider = New(conn, l.options())
	return l
}

func (l *lab) options() Options {
	return Options{
		Bridges: l.holder, ChannelPath: l.holder.ChannelPathInside, QEMULog: l.holder.QEMULog, PIDFile: l.holder.QEMUPIDFile,
		Host: func(ctx context.Context) error {
			st, err := l.holder.Check(ctx)
			if st == hypervisor.Gone {
				return errors.Join(provider.ErrGone, l.holder.Died())
			}
			return err
		},
	}
}

func (l *lab) id(part string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(l.lineage+"/"+part)).String()
}

func (l *lab) network() provider.Resource {
	n := schema.Network{Name: "lv-" + l.lineage, UUID: l.id("network.lan"), Bridge: "lv" + l.lineage, Address: "network.lan", Lineage: l.lineage, MTU: 1500}
	return provider.Resource{Addr: addr.Resource{Noun: addr.N(addr.Network, "lan"), Part: "network"}, Type: schema.TypeNetwork, Attrs: n.Value()}
}

func (l *lab) domain(i int) schema.Domain {
	noun := addr.N(addr.Backend, "ns").At(addr.Index(i))
	return schema.Domain{Name: fmt.Sprintf("lv-%s-ns-%d", l.lineage, i), UUID: l.id(noun.String()), Address: noun.String(), Lineage: l.lineage,
		Memory: 192 << 20, VCPUs: 1, Kernel: l.image.Kernel, Initrd: l.image.Initrd, Root: l.image.Root, Accelerator: "tcg",
		Cmdline: "console=ttyS0 mitigations=off panic=-1", Console: filepath.Join(l.dir, "console", fmt.Sprintf("ns-%d.log", i)),
		NICs: []schema.NIC{{Network: "lv-" + l.lineage, MAC: fmt.Sprintf("52:54:00:00:00:%02x", i)}}}
}

func resource(d schema.Domain) provider.Resource {
	noun, err := addr.ParseNoun(d.Address)
	if err != nil {
		panic(err)
	}
	return provider.Resource{Addr: addr.Resource{Noun: noun, Part: "domain"}, Type: schema.TypeDomain, Attrs: d.Value()}
}

// up makes the network and n domains.
func (l *lab) up(t *testing.T, n int) []provider.Resource {
	t.Helper()
	if _, err := l.Create(t.Context(), l.network()); err != nil {
		t.Fatal(err)
	}
	var all []provider.Resource
	g, ctx := errgroup.WithContext(t.Context())
	for i := range n {
		r := resource(l.domain(i))
		all = append(all, r)
		g.Go(func() error { _, err := l.Create(ctx, r); return err })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// emulators lists the QEMU processes of a lab, with their resident memory in MiB.
func emulators(t *testing.T, lineage string) map[int]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(text, []byte("guest=lv-"+lineage)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			t.Fatal(err)
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		line, _, _ := strings.Cut(rest, " kB")
		kib, _ := strconv.Atoi(strings.TrimSpace(line))
		found[pid] = kib >> 10
	}
	return found
}

func hostLinks(t *testing.T) []string {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names
}

func TestAccFiveDomains(t *testing.T) {
	l := newLab(t, "acc5")
	links := hostLinks(t)
	began := time.Now()
	all := l.up(t, 5)
	t.Logf("network and five domains created in %s", time.Since(began))
	var values []cty.Value
	for i, r := range all {
		have, err := l.Read(t.Context(), r, r.Attrs)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, have)
		p, err := l.Plan(r, have)
		if err != nil || p.Action != provider.NoOp {
			t.Errorf("%s: a new machine is planned as %+v, %v", r.Addr, p, err)
		}
		d, err := schema.DomainFrom(have)
		if err != nil || d.ID == 0 || d.PID == 0 || d.Started == "" {
			t.Errorf("computed attributes: %+v, %v", d, err)
		}
		for _, port := range ports() {
			sock, err := net.Dial("unix", l.holder.ChannelSocket(d.Name, port))
			if err != nil {
				t.Errorf("%d: %v", i, err)
				continue
			}
			sock.Close()
		}
		again, err := l.Create(t.Context(), r)
		if err != nil || !again.RawEquals(have) {
			t.Errorf("a second create made another one: %v\n%#v\n%#v", err, again, have)
		}
	}
	if owned, err := l.ListOwned(t.Context(), "acc5"); err != nil || len(owned) != 5 {
		t.Errorf("owned: %+v, %v", owned, err)
	}
	if owned, err := l.ListOwned(t.Context(), "other"); err != nil || len(owned) != 0 {
		t.Errorf("owned by another: %+v, %v", owned, err)
	}
	if n := l.network(); true {
		have, err := l.Read(t.Context(), n, n.Attrs)
		if err != nil || !have.RawEquals(n.Attrs) {
			t.Errorf("network: %#v, %v", have, err)
		}
	}
	if diff := cmp.Diff(links, hostLinks(t)); diff != "" {
		t.Errorf("links on the host: -before +now\n%s", diff)
	}
	awaitConsole(t, l.domain(0).Console, "Linux version")
	t.Logf("resident memory in MiB: %v", emulators(t, "acc5"))
	l.downAndProve(t, all, values)
}

// downAndProve deletes everything twice and looks for what is left.
func (l *lab) downAndProve(t *testing.T, all []provider.Resource, values []cty.Value) {
	t.Helper()
	began := time.Now()
	var g errgroup.Group
	for i, r := range all {
		g.Go(func() error { return l.Delete(t.Context(), r, values[i]) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	n := l.network()
	if err := l.Delete(t.Context(), n, n.Attrs); err != nil {
		t.Fatal(err)
	}
	t.Logf("deleted in %s", time.Since(began))
	for i, r := range append(all, n) {
		if _, err := l.Read(t.Context(), r, r.Attrs); !errors.Is(err, provider.ErrGone) {
			t.Errorf("%s after delete: %v", r.Addr, err)
		}
		if err := l.Delete(t.Context(), r, append(values, n.Attrs)[i]); err != nil {
			t.Errorf("%s, second delete: %v", r.Addr, err)
		}
	}
	if left := emulators(t, l.lineage); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	began = time.Now()
	if err := l.holder.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("stopped in %s", time.Since(began))
}

func awaitConsole(t *testing.T, path, word string) {
	t.Helper()
	for limit := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(word)) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("no %q on the console: %s", word, text)
		}
	}
}

func TestAccForeignIsNeverTouched(t *testing.T) {
	l := newLab(t, "accf")
	mine := l.up(t, 1)[0]
	other := l.domain(0) // the same name from another lab
	other.UUID, other.Lineage = l.id("elsewhere"), "9999"
	_, err := l.Create(t.Context(), resource(other))
	if !errors.Is(err, provider.ErrForeign) || !strings.Contains(err.Error(), "lineage accf") {
		t.Errorf("create over the name: %v", err)
	}
	other.UUID = l.domain(0).UUID // the same UUID, another mark
	for name, err := range map[string]error{
		"read":   func() error { _, err := l.Read(t.Context(), resource(other), other.Value()); return err }(),
		"create": func() error { _, err := l.Create(t.Context(), resource(other)); return err }(),
		"delete": l.Delete(t.Context(), resource(other), other.Value()),
	} {
		if !errors.Is(err, provider.ErrForeign) || diag.From(err)[0].Address != "backend.ns[0]/domain" {
			t.Errorf("%s: %v", name, err)
		}
	}
	n, err := schema.NetworkFrom(l.network().Attrs)
	if err != nil {
		t.Fatal(err)
	}
	n.UUID = l.id("elsewhere")
	r := l.network()
	r.Attrs = n.Value()
	if _, err := l.Create(t.Context(), r); !errors.Is(err, provider.ErrForeign) {
		t.Errorf("network of the same name: %v", err)
	}
	if _, err := l.Read(t.Context(), mine, mine.Attrs); err != nil {
		t.Errorf("the machine was touched: %v", err)
	}
	// A changed definition of our own is made anew.
	changed := l.domain(0)
	changed.Memory = 128 << 20
	have, err := l.Create(t.Context(), resource(changed))
	if d, _ := schema.DomainFrom(have); err != nil || d.Memory != changed.Memory {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAccKillNineWithDomains(t *testing.T) {
	l := newLab(t, "acck")
	links := hostLinks(t)
	all := l.up(t, 2)
	if n := len(emulators(t, "acck")); n != 2 {
		t.Fatalf("%d emulators", n)
	}
	if err := syscall.Kill(l.holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for {
		lives, err := l.holder.Alive()
		if err != nil {
			t.Fatal(err)
		}
		if !lives {
			break
		}
		if time.Since(began) > 15*time.Second {
			t.Fatal("the holder does not end")
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("gone %s after kill -9", time.Since(began))
	if left := emulators(t, "acck"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if diff := cmp.Diff(links, hostLinks(t)); diff != "" {
		t.Errorf("-before +now\n%s", diff)
	}
	_, err := l.Read(t.Context(), all[0], all[0].Attrs)
	if !errors.Is(err, provider.ErrGone) || !strings.Contains(err.Error(), "libvirtd of lab acck died") {
		t.Errorf("read: %v", err)
	}
	if err := l.Delete(t.Context(), all[0], all[0].Attrs); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := l.Create(t.Context(), all[0]); err == nil {
		t.Error("create succeeded without a hypervisor")
	}
}

func TestAccFailedStarts(t *testing.T) {
	l := newLab(t, "acce")
	if _, err := l.Create(t.Context(), l.network()); err != nil {
		t.Fatal(err)
	}
	hidden, err := os.CreateTemp("/var/tmp", "lvslab-acc-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(hidden.Name())
	hidden.Close()
	notKernel := filepath.Join(l.dir, "kernel")
	if err := os.WriteFile(notKernel, []byte("no kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*schema.Domain)
		summary string
		words   []string
	}{
		"no kernel":       {func(d *schema.Domain) { d.Kernel = "/nonexistent/vmlinuz" }, "The kernel cannot be read", []string{"lvslab image build"}},
		"hidden root":     {func(d *schema.Domain) { d.Root = hidden.Name() }, "A file is missing", []string{hidden.Name(), "/var"}},
		"damaged kernel":  {func(d *schema.Domain) { d.Kernel = notKernel }, "libvirt reports an error", []string{"QEMU's last lines", "qemu"}},
		"missing network": {func(d *schema.Domain) { d.NICs[0].Network = "lv-none" }, "The network does not exist", []string{"lv-none"}},
		"KVM by force":    {func(d *schema.Domain) { d.Accelerator = "kvm" }, "KVM cannot be used", []string{"lvslab doctor"}},
		"too much memory": {func(d *schema.Domain) { d.Memory = 1 << 50 }, "Not enough memory", nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := l.domain(0)
			c.change(&d)
			_, err := l.Create(t.Context(), resource(d))
			if err == nil {
				t.Fatal("it started")
			}
			list := diag.From(err)
			if len(list) != 1 || list[0].Summary != c.summary {
				t.Errorf("%+v, want %q", list, c.summary)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in: %v", w, err)
				}
			}
			if _, err := l.Read(t.Context(), resource(d), d.Value()); !errors.Is(err, provider.ErrGone) {
				t.Errorf("after the failure: %v", err)
			}
		})
	}
	if left := emulators(t, "acce"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A libvirt that is not ours alone: its sockets lie in a directory of this
// machine, which is made with the first and removed with the last of them.
func TestAccSharedLibvirt(t *testing.T) {
	l := newLab(t, "accs")
	dir := filepath.Join(l.dir, "ch")
	o := l.options()
	o.Bridges = nil
	o.ChannelPath = func(domain, port string) string { return filepath.Join(dir, hypervisor.ChannelFile(domain, port)) }
	l.Provider = New(l.conn, o)
	d := l.domain(0)
	d.NICs = nil // its libvirt would run iptables for a network
	have, err := l.Create(t.Context(), resource(d))
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports() {
		sock, err := net.Dial("unix", o.ChannelPath(d.Name, port))
		if err != nil {
			t.Fatal(err)
		}
		sock.Close()
	}
	if err := l.Delete(t.Context(), resource(d), have); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the sockets' directory is left: %v", err)
	}
	d.Name = strings.Repeat("x", 120)
	o.ChannelPath = func(domain, port string) string { return filepath.Join(dir, domain+port) }
	l.Provider = New(l.conn, o)
	if _, err := l.Create(t.Context(), resource(d)); err == nil || diag.From(err)[0].Summary != "The path of a socket is too long" {
		t.Errorf("%v", err)
	}
}

func TestAccByURI(t *testing.T) {
	l := newLab(t, "accu")
	conn, err := Dial(t.Context(), "qemu+unix:///system?socket="+l.holder.LibvirtSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if v, err := conn.Version(t.Context()); err != nil || strings.Count(v, ".") != 2 {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := Dial(t.Context(), "qemu+unix:///system?socket="+filepath.Join(t.TempDir(), "none")); diag.From(err)[0].Summary != "No libvirt at this socket" {
		t.Errorf("%v", err)
	}
}
