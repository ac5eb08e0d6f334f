package server

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerSysctl(s *Server) {
	Handle(s, proto.SysctlApply, sysctlApply)
	Handle(s, proto.SysctlRead, sysctlRead)
}

const procSys = "/proc/sys/"

// ipForward is written before all others: the kernel resets many values below
// net.ipv4.conf when it changes (Documentation/networking/ip-sysctl.rst).
const ipForward = "net.ipv4.ip_forward"

func sysctlApply(_ context.Context, want map[string]string) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(want))
	if i := slices.Index(names, ipForward); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, ipForward)
	}
	for _, name := range names {
		if err := writeSysctl(name, want[name]); err != nil {
			return nil, err
		}
	}
	have := make(map[string]string, len(want))
	for _, name := range names {
		v, err := readSysctl(name)
		if err != nil {
			return nil, sysctlError(name, "read", err)
		}
		have[name] = v
		if wanted := normalSysctl(want[name]); v != wanted {
			return nil, fail(proto.CodeMismatch, name, "is %q after %q was written", v, wanted)
		}
	}
	return have, nil
}

func sysctlRead(_ context.Context, names []string) (map[string]string, error) {
	have := make(map[string]string, len(names))
	for _, name := range names {
		v, err := readSysctl(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, sysctlError(name, "read", err)
		}
		have[name] = v
	}
	return have, nil
}

// sysctlPath takes the names of sysctl(8): dots separate, and in a name with
// slashes they separate and dots are part of it (devices with a dot).
func sysctlPath(name string) (string, error) {
	p := name
	if !strings.Contains(name, "/") {
		p = strings.ReplaceAll(name, ".", "/")
	}
	full := path.Join(procSys, p)
	if !strings.HasPrefix(full, procSys) || name == "" {
		return "", fail(proto.CodeInvalid, name, "not a name of a kernel parameter")
	}
	return full, nil
}

func readSysctl(name string) (string, error) {
	p, err := sysctlPath(name)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(p)
	return normalSysctl(string(text)), err
}

func writeSysctl(name, value string) error {
	p, err := sysctlPath(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_WRONLY, 0)
	if err != nil {
		return sysctlError(name, "open", err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return sysctlError(name, "write "+value+" to", err)
	}
	return nil
}

func sysctlError(name, what string, err error) error {
	var known *proto.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fail(proto.CodeNotFound, name, "the guest's kernel has no such parameter")
	case errors.Is(err, unix.EINVAL):
		return fail(proto.CodeInvalid, name, "%s it: the kernel does not take this value", what)
	}
	return fail(proto.CodeFailed, name, "%s it: %v", what, err)
}

// normalSysctl makes "4096\t131072\n" and "4096 131072" the same.
func normalSysctl(v string) string { return strings.Join(strings.Fields(v), " ") }
