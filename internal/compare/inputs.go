package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
)

// inputs names what was not the same before the runs: versions, settings, files
// of the topology. Times, names and random ids of the two results are no inputs.
func inputs(a, b *artifact.Artifact) []Change {
	ma, mb := a.Manifest(), b.Manifest()
	out := []Change{}
	add := func(name, va, vb string) {
		if va != vb {
			out = append(out, Change{name, va, vb})
		}
	}
	va, vb := ma.Versions, mb.Versions
	for _, v := range []struct{ name, a, b string }{
		{"lvslab", va.Lvslab, vb.Lvslab}, {"guest kernel", va.GuestKernel, vb.GuestKernel}, {"host kernel", va.HostKernel, vb.HostKernel},
		{"qemu", va.QEMU, vb.QEMU}, {"libvirt", va.Libvirt, vb.Libvirt}, {"ipvs", va.IPVS, vb.IPVS}, {"ipvsadm", va.IPVSAdm, vb.IPVSAdm},
		{"named", va.Named, vb.Named}, {"dnsperf", va.DNSPerf, vb.DNSPerf},
		{"accelerator", ma.Accelerator, mb.Accelerator},
		{"host", ma.Host.String(), mb.Host.String()},
	} {
		add(v.name, v.a, v.b)
	}
	each(add, "name server of", va.NameServers, vb.NameServers)
	each(add, "image", digests(ma.Images), digests(mb.Images))
	each(add, "isolation of", ma.Isolation, mb.Isolation)
	each(add, "seed of", text(ma.Seeds), text(mb.Seeds))
	each(add, "address", ma.Addresses, mb.Addresses)
	each(add, "list order of", joined(ma.DestinationOrder), joined(mb.DestinationOrder))
	for _, node := range keys(ma.Sysctls, mb.Sysctls) {
		if ma.Sysctls[node] != nil && mb.Sysctls[node] != nil { // else its address says that only one has it
			each(add, node, ma.Sysctls[node], mb.Sysctls[node])
		}
	}
	each(add, "file", topology(ma), topology(mb))
	return out
}

func each(add func(name, a, b string), prefix string, a, b map[string]string) {
	for _, k := range keys(a, b) {
		add(prefix+" "+k, a[k], b[k])
	}
}

func keys[V any](a, b map[string]V) []string {
	all := append(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))...)
	slices.Sort(all)
	return slices.Compact(all)
}

func text[V any](m map[string]V) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = fmt.Sprint(v)
	}
	return out
}

func joined(m map[string][]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = strings.Join(v, " ")
	}
	return out
}

// digests shortens what is only compared.
func digests(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = fmt.Sprintf("%.19s", v) // sha256: and twelve digits
	}
	return out
}

// topology are the checksums of the topology's files.
func topology(m artifact.Manifest) map[string]string {
	out := map[string]string{}
	for path, sum := range m.Files {
		if strings.HasPrefix(path, artifact.TopologyDir+"/") {
			out[path] = fmt.Sprintf("%.12s", sum)
		}
	}
	return out
}
