package images

import "strings"

// Debian12 is the guest of every lab that names no image: the cloud kernel
// with IPVS, all its schedulers and tunnels, BIND, dnsperf and the tools to
// look at a network. It boots by an agent and has no init system.
var Debian12 = Recipe{
	Name:  "debian-12",
	Suite: "bookworm",
	Arch:  "amd64",
	Epoch: 1_686_355_200, // 2023-06-10, the release of Debian 12
	Packages: []string{
		"linux-image-cloud-amd64", "bash", "bind9", "bind9-dnsutils", "busybox-static", "dash", "dnsperf", "ethtool",
		"iproute2", "ipvsadm", "kmod", "netbase", "nftables", "tcpdump",
	},
	Without: []string{
		"adduser", "base-files", "coreutils", "cpio", "debconf", "debianutils", "dpkg", "init-system-helpers", "initramfs-tools",
		"initramfs-tools-core", "klibc-utils", "libcap2-bin", "libperl5.36", "linux-base", "logsave", "lsb-base",
		"passwd", "perl", "perl-base", "perl-modules-5.36", "sysvinit-utils", "tar", "udev", "usrmerge",
	},
	Modules: []string{
		"net/netfilter/", "net/ipv4/", "net/ipv6/", "net/sched/", "net/core/", "net/802/", "net/8021q/", "net/bridge/",
		"net/llc/", "net/netlink/", "net/packet/", "net/unix/", "net/psample/", "net/vmw_vsock/", "net/xfrm/",
		"drivers/virtio/", "drivers/char/hw_random/", "drivers/net/bonding/", "drivers/net/ipvlan/",
		"drivers/net/wireguard/", "fs/squashfs/", "fs/overlayfs/",
		"virtio_blk", "virtio_console", "virtio_net", "loop", "dummy", "geneve", "ifb", "macvlan", "macvtap", "nlmon",
		"tap", "tun", "veth", "vrf", "vxlan", "isofs",
	},
	// The disk first, then what the agent needs to speak, then the network.
	BootModules: []string{
		"virtio_pci", "virtio_blk", "squashfs", "overlay", "virtio_console", "virtio_rng", "virtio_net",
	},
	Prune: []string{
		"usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/lintian/",
		"usr/share/bug/", "usr/share/bash-completion/", "usr/share/zsh/", "usr/share/doc-base/", "usr/share/apport/",
		"usr/share/initramfs-tools/", "usr/share/gcc/", "usr/share/dbus-1/", "usr/share/gdb/", "usr/share/icu/",
		"usr/share/perl5/", "usr/share/libgcrypt20/", "usr/share/nftables/",
		"usr/include/", "usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/x86_64-linux-gnu/audit/",
		"usr/lib/x86_64-linux-gnu/perl5/", "usr/lib/x86_64-linux-gnu/krb5/",
		"usr/lib/systemd/", "usr/lib/sysctl.d/", "usr/lib/tmpfiles.d/", "usr/lib/udev/", "usr/lib/ufw/",
		"usr/lib/locale/", "usr/lib/NetworkManager/", "usr/lib/networkd-dispatcher/", "usr/lib/modprobe.d/systemd.conf",
		"etc/skel/", "usr/share/menu/", "usr/share/debianutils/", "usr/bin/bashbug", "usr/bin/clear_console",
		"usr/sbin/arpd", "usr/lib/x86_64-linux-gnu/tc/q_atm.so", // the only users of libdb and libatm
		"usr/lib/x86_64-linux-gnu/engines-3/",
		"etc/apparmor.d/", "etc/apt/", "etc/cron.d/", "etc/cron.daily/", "etc/default/", "etc/dpkg/", "etc/fstab",
		"etc/hostname", "etc/init.d/", "etc/insserv.conf.d/", "etc/kernel/", "etc/logcheck/", "etc/machine-id",
		"etc/network/", "etc/ppp/", "etc/resolv.conf", "etc/systemd/", "etc/ufw/", "etc/ipvsadm.rules",
		"boot/", "dev/", "proc/", "run/", "sys/", "tmp/", "var/", "usr/lib/modules/",
	},
	// glibc opens it by name when a thread is cancelled.
	KeepLibraries: []string{"libgcc_s.so.1"},
	Applets: strings.Fields(`[ [[ arch arp arping ascii ash awk base64 basename bc blockdev brctl bunzip2 bzcat bzip2
		cal cat chgrp chmod chown chroot clear cmp cp cpio crc32 cttyhack cut date dc dd devmem df diff dirname dmesg
		dnsdomainname dos2unix du echo ed egrep env expand expr factor fallocate false fgrep find findfs fold free
		ftpget ftpput getopt grep groups gunzip gzip halt head hexdump hostid hostname httpd id ifconfig ionice
		ipcalc kill killall last less link ln logger logname losetup ls lzcat md5sum mdev microcom mkdir mke2fs
		mkfifo mknod mktemp more mount mv nameif nc netstat nl nologin nproc nsenter od paste patch pidof
		ping ping6 pivot_root poweroff printf ps pwd readlink realpath reboot renice reset resume rev rm rmdir route
		run-parts sed seq setpriv setsid sha1sum sha256sum sha3sum sha512sum shred shuf sleep sort stat
		strings stty switch_root sync sysctl syslogd tac tail tar taskset tee telnet test tftp time timeout top touch
		tr traceroute traceroute6 true truncate ts tty tunctl udhcpc umount uname uncompress unexpand uniq unix2dos
		unlink unlzma unshare unxz unzip uptime usleep uudecode uuencode vconfig vi watch wc wget which who whoami
		xargs xxd xz xzcat yes zcat`),
	Users: []User{
		{Name: "root", ID: 0, Home: "/root", Shell: "/bin/bash"},
		{Name: "bind", ID: 101, Home: "/var/cache/bind", Shell: "/usr/bin/nologin"},
		{Name: "tcpdump", ID: 102, Home: "/", Shell: "/usr/bin/nologin"},
		{Name: "nobody", ID: 65534, Home: "/nonexistent", Shell: "/usr/bin/nologin", Group: "nogroup"},
	},
	Dirs: []Dir{
		{Path: "dev", Mode: 0o755}, {Path: "proc", Mode: 0o555}, {Path: "sys", Mode: 0o555}, {Path: "run", Mode: 0o755},
		{Path: "mnt", Mode: 0o755}, {Path: "root", Mode: 0o700}, {Path: "tmp", Mode: 0o1777},
		{Path: "run/lock", Mode: 0o1777}, {Path: "var/tmp", Mode: 0o1777}, {Path: "var/log", Mode: 0o755},
		{Path: "var/empty", Mode: 0o755}, {Path: "var/lib", Mode: 0o755},
		// named -u bind writes its journal and its socket here
		{Path: "var/cache/bind", Mode: 0o775, Owner: "bind"}, {Path: "var/lib/bind", Mode: 0o775, Owner: "bind"},
		{Path: "run/named", Mode: 0o775, Owner: "bind"},
	},
	Files: map[string]string{
		"etc/hosts":         "127.0.0.1 localhost lvslab-guest\n::1 localhost ip6-localhost ip6-loopback\n",
		"etc/hostname":      "lvslab-guest\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nprotocols: files\nservices: files\n",
		"etc/profile":       "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\nexport PATH\n",
		"etc/shells":        "/bin/sh\n/bin/bash\n",
	},
	// sh is dash and not busybox: the shell of Debian's busybox runs its own
	// applets before any program, so `ip link add type ipip` would fail in it.
	Links: map[string]string{
		"usr/bin/sh": "dash",
		"bin":        "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64",
		"var/run": "/run", "var/lock": "/run/lock", "etc/mtab": "/proc/mounts",
	},
}
