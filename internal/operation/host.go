package operation

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/version"
)

// thisHost says what machine this is. The id is hashed with a word of our own,
// as machine-id(5) asks of who passes it on.
func thisHost() artifact.Host {
	return hostFrom(func(name string) []byte {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		return text
	}, runtime.NumCPU())
}

// hostFrom is thisHost for the machine whose files read returns, nil for one that
// cannot be read.
func hostFrom(read func(name string) []byte, cores int) artifact.Host {
	h := artifact.Host{Cores: cores}
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if b := read(path); len(strings.TrimSpace(string(b))) == 32 {
			sum := sha256.Sum256([]byte("lvslab\n" + strings.TrimSpace(string(b))))
			h.ID = hex.EncodeToString(sum[:])
			break
		}
	}
	for lines := bufio.NewScanner(bytes.NewReader(read("/proc/cpuinfo"))); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}
	return h
}

// hostVersions are those of the machine that the lab runs on.
func (a *applying) hostVersions() artifact.Versions {
	if a.far() {
		return artifact.Versions{Lvslab: version.Version, HostKernel: a.farHas.kernel, QEMU: a.farHas.qemu}
	}
	return hostVersions()
}

// hostBoot is the id of that machine's boot, "" when it does not tell.
func (a *applying) hostBoot() string {
	if a.far() {
		return a.farHas.boot
	}
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// hostFacts is the machine that the lab runs on.
func (a *applying) hostFacts() artifact.Host {
	if a.far() {
		return a.farHas.Host
	}
	return thisHost()
}
