package hypervisor

import (
	"fmt"
	"strings"
)

// Where things are inside. The host reaches them through /proc/PID/root.
const (
	insideRun      = "/run/lvslab"
	insideChannels = insideRun + "/ch"
	insideTmp      = insideRun + "/tmp"
	insideDrivers  = insideRun + "/drivers"
	insideBin      = insideRun + "/bin"
	insideSocket   = "/run/libvirt/libvirt-sock"
	insideQEMULogs = "/var/log/libvirt/qemu"
	insideCaps     = "/var/cache/libvirt/qemu/capabilities"
	// Emulator is the path of QEMU, inside and outside.
	Emulator = "/usr/bin/qemu-system-x86_64"
	libvirtd = "/usr/sbin/libvirtd"
)

// libvirtdConf is the private daemon's configuration. Sockets need no
// authentication: they are reached through /proc/PID/root only, which asks for
// the right to trace the holder.
func libvirtdConf(lineage string) string {
	return setting("unix_sock_dir", "/run/libvirt") +
		setting("unix_sock_rw_perms", "0700") +
		setting("auth_unix_ro", "none") +
		setting("auth_unix_rw", "none") +
		// The one client makes as many calls as there are machines to make.
		"max_client_requests = 32\n" +
		// Asked by libvirt from DMI otherwise, where many machines have none.
		setting("host_uuid", hostUUID(lineage)) +
		setting("log_outputs", "3:stderr") +
		"log_level = 3\n" +
		"audit_level = 0\n"
}

// qemuConf keeps libvirt's hands off everything that a private namespace makes
// needless. Measured: with a run user other than root and /dev/kvm readable for
// root only, libvirt finds its cached capabilities invalid at each start of a
// domain and probes QEMU for 68 s; with user root each start takes 0.4 s.
func qemuConf() string {
	return setting("user", "root") +
		setting("group", "root") +
		"dynamic_ownership = 0\n" +
		"remember_owner = 0\n" +
		setting("security_driver", "none") +
		// "logd" would need a virtlogd beside libvirtd.
		setting("stdio_handler", "file") +
		"namespaces = []\n" +
		"cgroup_controllers = []\n" +
		// With this capability libvirt asks QEMU for every property of the virtual
		// processor by itself, 400 questions at each start of a domain; without it
		// for two words of features. On a busy machine: 1.5 s instead of 0.3 s.
		"capability_filters = [ \"cpu-unavailable-features\" ]\n"
}

func setting(name, value string) string { return fmt.Sprintf("%s = %q\n", name, value) }

// etcFiles are the files of the private /etc beside libvirt's. Debian's
// libvirtd looks up the user libvirt-qemu even when another one is configured.
func etcFiles(hostname string) map[string]string {
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\n" +
			"libvirt-qemu:x:64055:64055:QEMU:/var/lib/libvirt:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group": "root:x:0:\nkvm:x:64054:\nlibvirt-qemu:x:64055:\nnogroup:x:65534:\n",
		// libvirtd asks for its host's full name at each connection; without
		// these two files it would ask DNS, in a namespace that has no network.
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"hosts":         "127.0.0.1 localhost\n127.0.1.1 " + hostname + "\n",
		"hostname":      hostname + "\n",
		"machine-id":    "",
		"fstab":         "",
	}
}

// hostname is the UTS name inside. A client can ask libvirtd for it and so
// prove that it talks to the right lab.
func hostname(lineage string) string {
	h := strings.ToLower(lineage)
	if len(h) > 40 {
		h = h[:40]
	}
	return "lvslab-" + strings.TrimRight(h, "-")
}
