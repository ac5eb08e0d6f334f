package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// Paths of the calling thread's network namespace; /proc/net would be that of
// the process's first thread.
const (
	procNet   = "/proc/thread-self/net/"
	sysctlDir = "/proc/sys/net/ipv4/vs/"
	// SysctlPrefix begins the names of IPVS's sysctls.
	SysctlPrefix = "net.ipv4.vs."
)

// linuxKernel is the real thing: moby/ipvs for the writes that it does right,
// our own netlink for the rest, procfs for the table and the totals.
type linuxKernel struct {
	m    *moby.Handle
	g    *genl
	load LoadModule
}

func openLinux(load LoadModule) (*linuxKernel, error) {
	g, err := openGenl()
	if err != nil {
		return nil, &MissingModuleError{Modules: []string{"ip_vs"}, Detail: "no netlink family IPVS: " + err.Error()}
	}
	m, err := moby.New("")
	if err != nil {
		return nil, fmt.Errorf("opening IPVS: %w", err)
	}
	return &linuxKernel{m: m, g: g, load: load}, nil
}

func (k *linuxKernel) close() { k.m.Close() }

func (k *linuxKernel) services() ([]proto.IPVSService, error) { return k.g.services() }

func (k *linuxKernel) destinations(key proto.IPVSKey) ([]proto.IPVSDestination, error) {
	return k.g.destinations(key)
}

func (k *linuxKernel) newService(s proto.IPVSService) error {
	m, err := mobyService(s)
	if err != nil {
		return err
	}
	err = k.m.NewService(m)
	if errors.Is(err, unix.ENOENT) { // the scheduler, by name (EXP-M)
		return &MissingModuleError{Modules: []string{schedulerModule(s.Scheduler)}, Detail: "the kernel knows no such scheduler"}
	}
	return wrap(err, "creating", Name(s.IPVSKey))
}

func (k *linuxKernel) setService(s proto.IPVSService) error {
	m, err := mobyService(s)
	if err != nil {
		return err
	}
	err = k.m.UpdateService(m)
	if errors.Is(err, unix.ENOENT) {
		return &MissingModuleError{Modules: []string{schedulerModule(s.Scheduler)}, Detail: "the kernel knows no such scheduler"}
	}
	return wrap(err, "changing", Name(s.IPVSKey))
}

func (k *linuxKernel) delService(key proto.IPVSKey) error {
	m, err := mobyService(proto.IPVSService{IPVSKey: key})
	if err != nil {
		return err
	}
	err = k.m.DelService(m)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s: %w", Name(key), ErrNotFound)
	}
	return wrap(err, "deleting", Name(key))
}

func (k *linuxKernel) flush() error { return wrap(k.m.Flush(), "deleting", "all services") }

func (k *linuxKernel) newDestination(key proto.IPVSKey, d proto.IPVSDestination) error {
	if needsOwnWrite(key, d) {
		return wrap(k.g.writeDest(cmdNewDest, key, d), "adding", destName(d))
	}
	return k.withMoby(key, d, "adding", k.m.NewDestination)
}

func (k *linuxKernel) setDestination(key proto.IPVSKey, d proto.IPVSDestination) error {
	if needsOwnWrite(key, d) {
		return wrap(k.g.writeDest(cmdSetDest, key, d), "changing", destName(d))
	}
	return k.withMoby(key, d, "changing", k.m.UpdateDestination)
}

func (k *linuxKernel) delDestination(key proto.IPVSKey, d proto.IPVSDestination) error {
	if needsOwnWrite(key, d) {
		return wrap(k.g.writeDest(cmdDelDest, key, d), "removing", destName(d))
	}
	return k.withMoby(key, d, "removing", k.m.DelDestination)
}

// needsOwnWrite says whether moby/ipvs lacks an attribute that this
// destination needs: it always writes IPIP tunnels of the service's family.
func needsOwnWrite(key proto.IPVSKey, d proto.IPVSDestination) bool {
	return d.TunnelType != "" || d.TunnelPort != 0 || addrFamily(d.Address) != family(key)
}

func (k *linuxKernel) withMoby(key proto.IPVSKey, d proto.IPVSDestination, doing string, do func(*moby.Service, *moby.Destination) error) error {
	s, err := mobyService(proto.IPVSService{IPVSKey: key})
	if err != nil {
		return err
	}
	fwd, err := forwardCode(d.Forward)
	if err != nil {
		return err
	}
	return wrap(do(s, &moby.Destination{
		Address: net.IP(addrBytes(d.Address)), Port: d.Port, Weight: d.Weight, ConnectionFlags: fwd,
		AddressFamily: addrFamily(d.Address), UpperThreshold: uint32(d.Upper), LowerThreshold: uint32(d.Lower),
	}), doing, destName(d))
}

func mobyService(s proto.IPVSService) (*moby.Service, error) {
	af := family(s.IPVSKey)
	m := &moby.Service{FWMark: s.FWMark, AddressFamily: af, SchedName: s.Scheduler,
		Timeout: uint32(s.Persistence), Netmask: netmaskCode(af, s.Netmask)}
	var err error
	if m.Flags, err = flagBits(s); err != nil || s.FWMark != 0 {
		return m, err
	}
	m.Address, m.Port = net.IP(addrBytes(s.VIP)), s.Port
	m.Protocol, err = protocolCode(s.Protocol)
	return m, err
}

func (k *linuxKernel) timeouts() (proto.IPVSTimeouts, error) { return k.g.timeouts() }

func (k *linuxKernel) setTimeouts(t proto.IPVSTimeouts) error {
	return wrap(k.m.SetConfig(&moby.Config{TimeoutTCP: time.Duration(t.TCP) * time.Second,
		TimeoutTCPFin: time.Duration(t.TCPFin) * time.Second, TimeoutUDP: time.Duration(t.UDP) * time.Second}), "setting", "timeouts")
}

func (k *linuxKernel) conns() ([]proto.IPVSConn, error) {
	return readProc("ip_vs_conn", ParseConns)
}

func (k *linuxKernel) totals() (proto.IPVSTotals, error) {
	return readProc("ip_vs_stats_percpu", ParseTotals)
}

func readProc[T any](name string, parse func(io.Reader) (T, error)) (T, error) {
	f, err := os.Open(procNet + name)
	if err != nil {
		var none T
		return none, err
	}
	defer f.Close()
	return parse(f)
}

func (k *linuxKernel) sysctls() (map[string]string, error) {
	entries, err := os.ReadDir(sysctlDir)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(sysctlDir, e.Name()))
		if err != nil {
			return nil, err
		}
		out[SysctlPrefix+e.Name()] = strings.Join(strings.Fields(string(b)), " ")
	}
	return out, nil
}

func (k *linuxKernel) setSysctl(name, value string) error {
	err := os.WriteFile(filepath.Join(sysctlDir, strings.TrimPrefix(name, SysctlPrefix)), []byte(value), 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: this kernel has no sysctl %s", ErrInvalid, name)
	}
	return err
}

func (k *linuxKernel) loadScheduler(ctx context.Context, name string) error {
	return k.load.module(ctx, schedulerModule(name))
}

func wrap(err error, doing, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, what, err)
}
