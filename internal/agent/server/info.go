package server

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerInfo(s *Server) {
	tools := sync.OnceValue(toolVersions)
	Handle(s, proto.Info, func(context.Context, proto.None) (proto.GuestInfo, error) {
		info := proto.GuestInfo{
			Kernel: kernelRelease(), Agent: s.version, Uptime: uptime(),
			Tools: tools(), KlogSeq: lastKernelSeq(),
		}
		if id := s.identity(); id != nil {
			info.Node, info.BootID = id.node, id.bootID
		}
		info.MemTotal, info.MemFree = memory()
		return info, nil
	})
}

// memory returns the total and the available memory, bytes.
func memory() (total, available uint64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseUint(fields[1], 10, 64)
		switch fields[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			available = kib << 10
		}
	}
	return total, available
}

// versionCommands print a version somewhere in their output. Each costs a fork
// and exec, some 0.1 s under emulation, so they run once in an agent's life.
// ipvsadm is not asked: it would load ip_vs.
var versionCommands = map[string][]string{
	"named":   {"named", "-v"},
	"dnsperf": {"dnsperf", "-h"},
}

var versionPattern = regexp.MustCompile(`(?:BIND|[Vv]ersion)\s*(\d+(?:\.\d+)+)`)

const versionWithin = 20 * time.Second

func toolVersions() map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), versionWithin)
	defer cancel()
	versions := map[string]string{}
	for name, args := range versionCommands {
		path, err := lookPath(args[0])
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, args[1:]...)
		cmd.Env = environment()
		out, _ := cmd.CombinedOutput() // dnsperf -h ends with 1
		if m := versionPattern.FindSubmatch(out); m != nil {
			versions[name] = string(m[1])
		}
	}
	return versions
}
