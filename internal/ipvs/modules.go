package ipvs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// LoadModule loads a kernel module with what it depends on; one that is there
// already is no error. The agent brings its own, since a run of modprobe costs
// about 0.1 s under emulation; nil stands for modprobe.
type LoadModule func(ctx context.Context, name string) error

// Preflight loads ip_vs and the schedulers named and says what is running. It
// must succeed before [Open]: moby/ipvs looks the netlink family up once per
// process and, when that failed, reports success for every write (moby/ipvs#27).
// What is missing comes back as one [*MissingModuleError].
func Preflight(ctx context.Context, load LoadModule, needs proto.IPVSNeeds) (proto.IPVSInfo, error) {
	var info proto.IPVSInfo
	if err := load.module(ctx, "ip_vs"); err != nil {
		return info, err
	}
	missing := &MissingModuleError{}
	for _, s := range needs.Schedulers {
		err := load.module(ctx, schedulerModule(s))
		var m *MissingModuleError
		switch {
		case errors.As(err, &m):
			missing.Modules = append(missing.Modules, m.Modules...)
			missing.Detail = m.Detail
		case err != nil:
			return info, err
		default:
			info.Schedulers = append(info.Schedulers, s)
		}
	}
	if len(missing.Modules) > 0 {
		return info, missing
	}
	if err := tunnelsKnown(needs.Tunnels); err != nil {
		return info, err
	}
	g, err := openGenl()
	if err != nil {
		return info, &MissingModuleError{Modules: []string{"ip_vs"}, Detail: "no netlink family IPVS: " + err.Error()}
	}
	info.Version, info.ConnTabSize, err = g.info()
	return info, err
}

func schedulerModule(name string) string { return "ip_vs_" + name }

// module makes sure that a module is loaded. Any failure but the end of the
// context is a [*MissingModuleError].
func (load LoadModule) module(ctx context.Context, name string) error {
	if strings.ContainsAny(name, "/ \t\n-") {
		return &MissingModuleError{Modules: []string{name}, Detail: "not a name"}
	}
	if _, err := os.Stat("/sys/module/" + name); err == nil {
		return nil
	}
	if load == nil {
		load = modprobe
	}
	err := load(ctx, name)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("loading %s: %w", name, ctx.Err())
	}
	if err != nil {
		return &MissingModuleError{Modules: []string{name}, Detail: err.Error()}
	}
	return nil
}

func modprobe(ctx context.Context, name string) error {
	out, err := exec.CommandContext(ctx, "modprobe", name).CombinedOutput()
	if msg := bytes.TrimSpace(out); err != nil && len(msg) > 0 {
		return errors.New(string(msg))
	}
	return err
}

// tunnelsKnown checks the kernel's age: GUE came with 5.2 and GRE with 5.3
// inside ip_vs itself; an older one would ignore the attribute and send IPIP.
func tunnelsKnown(types []string) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("kernel release %q: %w", release, err)
	}
	since := map[string]int{"ipip": 0, "": 0, "gue": 5002, "gre": 5003}
	for _, t := range types {
		min, ok := since[t]
		if !ok {
			return fmt.Errorf("%w: tunnel type %q", ErrInvalid, t)
		}
		if major*1000+minor < min {
			return &MissingModuleError{Modules: []string{"ip_vs tunnel type " + t}, Detail: "kernel " + release + " is too old"}
		}
	}
	return nil
}
