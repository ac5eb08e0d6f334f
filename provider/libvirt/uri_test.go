package libvirt

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/golden"
)

func TestParseURI(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	t.Setenv("HOME", "/home/me")
	far := func(f Far) *Far { return &f }
	for target, want := range map[string]Target{
		"/run/x/libvirt-sock":                   {"/run/x/libvirt-sock", "qemu:///system", nil},
		"qemu:///system":                        {"/run/libvirt/libvirt-sock", "qemu:///system", nil},
		"qemu+unix:///system":                   {"/run/libvirt/libvirt-sock", "qemu:///system", nil},
		"qemu+unix:///system?socket=/tmp/s":     {"/tmp/s", "qemu:///system", nil},
		"qemu:///session":                       {"/run/user/7/libvirt/libvirt-sock", "qemu:///session", nil},
		"qemu:///session?socket=%2Ftmp%2Fa%20b": {"/tmp/a b", "qemu:///session", nil},

		"qemu+ssh://host/system":                                    {"/run/libvirt/libvirt-sock", "qemu:///system", far(Far{Host: "host"})},
		"qemu+ssh://me@host:2222/system":                            {"/run/libvirt/libvirt-sock", "qemu:///system", far(Far{User: "me", Host: "host", Port: 2222})},
		"qemu+ssh://[fd00::1]:22/system":                            {"/run/libvirt/libvirt-sock", "qemu:///system", far(Far{Host: "fd00::1", Port: 22})},
		"qemu+ssh://h/session?socket=/run/s&no_tty=1":               {"/run/s", "qemu:///session", far(Far{Host: "h"})},
		"qemu+ssh://h/system?keyfile=/k&known_hosts=~/known":        {"/run/libvirt/libvirt-sock", "qemu:///system", far(Far{Host: "h", KeyFile: "/k", KnownHosts: "/home/me/known"})},
		"qemu+ssh://h/system?no_verify=0&known_hosts_verify=normal": {"/run/libvirt/libvirt-sock", "qemu:///system", far(Far{Host: "h"})},
	} {
		got, err := ParseURI(target)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v\n%s", target, got, err, cmp.Diff(want, got))
		}
	}
	var text strings.Builder
	for _, bad := range []string{"", "embedded", "qemu", "qemu://host/system", "qemu+tls:///system", "qemu+tcp://host/system",
		"xen:///system", "qemu:///other", "relative/path", "qemu:// /system", "qemu+unix://host/system",
		"qemu+ssh:///system", "qemu+ssh://host", "qemu+ssh://host/other", "qemu+ssh://host/session", "qemu+ssh://host:0/system",
		"qemu+ssh://host:99999/system", "qemu+ssh://host:x/system", "qemu+ssh://-oProxyCommand=x/system", "qemu+ssh://me:secret@host/system",
		"qemu+ssh://host/system?socket=s", "qemu+ssh://host/system?keyfile=k", "qemu+ssh://host/system?known_hosts=",
		"qemu+ssh://host/system?no_verify=1", "qemu+ssh://host/system?known_hosts_verify=ignore", "qemu+ssh://host/system?known_hosts_verify=auto",
		"qemu+ssh://host/system?command=/bin/x", "qemu+ssh://host/system?proxy=native", "qemu+ssh://host/system?a=%zz"} {
		_, err := ParseURI(bad)
		if err == nil {
			t.Errorf("%q was accepted", bad)
			continue
		}
		text.WriteString(err.Error() + "\n")
	}
	if strings.Contains(text.String(), "secret") {
		t.Error("a password is shown")
	}
	golden.File(t, filepath.Join("testdata", "uri-errors.txt"), text.String())
}

// A far libvirt is not looked for on this machine.
func TestFarIsNotHere(t *testing.T) {
	if _, err := Dial(t.Context(), "qemu+ssh://host/system"); err == nil || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("%v", err)
	}
}

func FuzzParseURI(f *testing.F) {
	f.Add("qemu+unix:///system?socket=/tmp/s")
	f.Add("/x")
	f.Add("qemu+ssh://me@host:22/system?keyfile=~/k&socket=/s")
	f.Fuzz(func(t *testing.T, target string) {
		got, err := ParseURI(target)
		if err == nil && (got.Socket == "" || got.URI == "" || got.Far != nil && got.Far.Host == "") {
			t.Errorf("%q: %+v", target, got)
		}
	})
}
