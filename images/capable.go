package images

import (
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
)

// bootNeeds are what a guest cannot start without, with the options that make it.
var bootNeeds = map[string]string{
	"virtio_pci": "CONFIG_VIRTIO_PCI", "virtio_blk": "CONFIG_VIRTIO_BLK", "squashfs": "CONFIG_SQUASHFS", "overlay": "CONFIG_OVERLAY_FS",
	"virtio_console": "CONFIG_VIRTIO_CONSOLE", "virtio_net": "CONFIG_VIRTIO_NET",
}

// bootOptions are what is no module of its own and has to be y: for unpacking
// the initramfs, for the agent and named, for reading the root, and for IPVS to
// do DNS. SERIAL_8250_CONSOLE is what an error about a boot is read from.
var bootOptions = strings.Fields(`BINFMT_ELF BLK_DEV_INITRD DEVTMPFS EPOLL FUTEX INET IP_VS_PROTO_TCP IP_VS_PROTO_UDP NET
	PRINTK PROC_FS SERIAL_8250_CONSOLE SQUASHFS_ZSTD SYSFS TMPFS TTY UNIX X86_64`)

// guestCapable reports what a kernel lacks for being a guest of a lab.
func (k *kernelTree) guestCapable() error {
	if !k.has("ip_vs") {
		return diag.Fail(nil, "The kernel has no IPVS", "Set CONFIG_IP_VS=m with CONFIG_IP_VS_PROTO_UDP=y and CONFIG_IP_VS_PROTO_TCP=y, and the schedulers (CONFIG_IP_VS_RR=m …).",
			"Linux %s has no ip_vs, neither as a module nor compiled in", k.release)
	}
	var lacks, options []string
	for name, option := range bootNeeds {
		if !k.has(name) {
			lacks, options = append(lacks, name), append(options, option)
		}
	}
	sort.Strings(lacks)
	sort.Strings(options)
	if len(lacks) > 0 {
		return diag.Fail(nil, "The kernel cannot start a guest", "Set "+strings.Join(options, ", ")+" to y or m.",
			"Linux %s has no %s, neither as modules nor compiled in", k.release, strings.Join(lacks, ", "))
	}
	return nil
}

// schedulers lists the schedulers of IPVS, compiled in or modules: all that is
// called ip_vs_NAME but for the helper of one protocol.
func (k *kernelTree) schedulers() []string {
	found := map[string]bool{}
	for _, names := range []iter.Seq[string]{maps.Keys(k.files), maps.Keys(k.builtin)} {
		for name := range names {
			if s, ok := strings.CutPrefix(name, "ip_vs_"); ok && s != "ftp" && !strings.HasPrefix(s, "pe_") {
				found[s] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// configured reports options that the kernel's configuration lacks, where it
// lies beside the kernel: .config of a tree, config-RELEASE as packages name it.
func (o *OwnKernel) configured() error {
	places := []string{filepath.Join(filepath.Dir(o.image), "config-"+o.Release)}
	if o.tree != "" {
		places = []string{filepath.Join(o.tree, ".config")}
	}
	for _, path := range places {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // then only the boot tells
		}
		if lacks := unset(string(text), bootOptions); len(lacks) > 0 {
			return diag.Fail(nil, "The kernel cannot start a guest", "Set "+strings.Join(lacks, ", ")+" to y.",
				"%s does not set %s to y", path, strings.Join(lacks, ", "))
		}
		return nil
	}
	return nil
}

var setOption = regexp.MustCompile(`(?m)^CONFIG_(\w+)=y$`)

// unset lists the options, with CONFIG_ before them, that are not y.
func unset(config string, options []string) []string {
	set := map[string]bool{}
	for _, m := range setOption.FindAllStringSubmatch(config, -1) {
		set[m[1]] = true
	}
	var lacks []string
	for _, name := range options {
		if !set[name] {
			lacks = append(lacks, "CONFIG_"+name)
		}
	}
	return lacks
}
