package libvirt

import "testing"

func TestParseURI(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	for target, want := range map[string][2]string{
		"/run/x/libvirt-sock":                   {"/run/x/libvirt-sock", "qemu:///system"},
		"qemu:///system":                        {"/run/libvirt/libvirt-sock", "qemu:///system"},
		"qemu+unix:///system":                   {"/run/libvirt/libvirt-sock", "qemu:///system"},
		"qemu+unix:///system?socket=/tmp/s":     {"/tmp/s", "qemu:///system"},
		"qemu:///session":                       {"/run/user/7/libvirt/libvirt-sock", "qemu:///session"},
		"qemu:///session?socket=%2Ftmp%2Fa%20b": {"/tmp/a b", "qemu:///session"},
	} {
		socket, uri, err := ParseURI(target)
		if err != nil || socket != want[0] || uri != want[1] {
			t.Errorf("%s: %s, %s, %v", target, socket, uri, err)
		}
	}
	for _, bad := range []string{"", "embedded", "qemu", "qemu+ssh://host/system", "qemu://host/system", "qemu+tls:///system",
		"xen:///system", "qemu:///other", "relative/path", "qemu:// /system"} {
		if _, _, err := ParseURI(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseURI(f *testing.F) {
	f.Add("qemu+unix:///system?socket=/tmp/s")
	f.Add("/x")
	f.Fuzz(func(t *testing.T, target string) {
		socket, uri, err := ParseURI(target)
		if err == nil && (socket == "" || uri == "") {
			t.Errorf("%q: %q, %q", target, socket, uri)
		}
	})
}
