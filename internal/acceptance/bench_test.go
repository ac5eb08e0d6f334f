package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/agent/proto"
)

// BenchmarkLab measures one apply of the paper's study against the time that
// the same five machines need to boot under plain QEMU in the same minute. The
// machines that this runs on are noisy: read the ratios.
func BenchmarkLab(b *testing.B) {
	needLab(b)
	for b.Loop() {
		boot := plainBoot(b, 5)
		plan := planTime(b)
		m := measureApply(b)
		fmt.Printf("\n%-46s %8s   %s\n", "", "seconds", "goal")
		row := func(name string, s float64, goal string) { fmt.Printf("%-46s %8.2f   %s\n", name, s, goal) }
		row("five plain QEMU boots in parallel", boot, "")
		row("plan", plan, "≤ 0.5")
		row("network and five machines created", m.created, "≤ 2")
		row("apply → first answered query", m.firstAnswer, "≤ 1.5 × the boots")
		row("  ratio to the boots", m.firstAnswer/boot, "≤ 1.5")
		row("one run, all in all (mean)", m.run, "")
		row("  load", m.load, "")
		row("  the estimator's wait", m.settle, "1.2 on average")
		row("  everything else", m.run-m.load-m.settle, "≤ 1")
		row("destroyed and verified", m.destroyed, "≤ 1")
		b.ReportMetric(m.firstAnswer/boot, "answer/boot")
		b.ReportMetric(m.run-m.load-m.settle, "overhead-s/run")
	}
}

// benchSite is an empty directory; a lab that is up there when the benchmark ends,
// because it failed, is taken down.
func benchSite(b *testing.B) *site {
	b.Helper()
	s := &site{t: b, dir: b.TempDir()}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd, out, _ := s.command(ctx, "destroy", "--auto-approve")
		if err := cmd.Run(); err != nil && len(s.own()) > 0 {
			b.Errorf("destroy: %v\n%s", err, out)
		}
	})
	return s
}

// BenchmarkIdle measures an apply of the paper's lab that is up and needs nothing:
// all five guests are read back.
func BenchmarkIdle(b *testing.B) {
	needLab(b)
	s := benchSite(b)
	args := []string{"apply", "--keep", "-var", "iterations=1", "-var", "queries=20", "builtin:lvs-tun-dns"}
	s.must(0, 5*time.Minute, args...)
	for b.Loop() {
		var all []float64
		for range rounds {
			r := s.must(0, time.Minute, args...)
			if !strings.Contains(r.stdout, "Nothing to do") {
				b.Fatalf("there is something to do: %s", r)
			}
			all = append(all, r.took.Seconds())
		}
		idle := median(all, func(s float64) float64 { return s })
		fmt.Printf("\n%-46s %8.2f   %s\n", fmt.Sprintf("apply with nothing to do, median of %d, seconds", rounds), idle, "≤ 0.5")
		b.ReportMetric(idle, "s/idle-apply")
	}
	s.must(0, time.Minute, "destroy", "--auto-approve")
}

// plainBoot boots n guests at once without libvirt and returns when the agent
// of the last one has opened its ports: user space is up.
func plainBoot(b *testing.B, n int) float64 {
	b.Helper()
	cache, err := images.DefaultCacheDir()
	if err != nil {
		b.Fatal(err)
	}
	img, err := images.Build(context.Background(), images.Debian12, images.Options{CacheDir: cache})
	if err != nil {
		b.Fatal(err)
	}
	agent, err := binary.Bytes()
	if err != nil {
		b.Fatal(err)
	}
	initrd, err := images.InitrdWithAgent(context.Background(), img, agent, cache)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	began := time.Now()
	ready := make(chan error, n)
	for range n {
		go func() { ready <- bootOne(ctx, img, initrd) }()
	}
	for range n {
		if err := <-ready; err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began).Seconds()
}

func bootOne(ctx context.Context, img images.Image, initrd string) error {
	args := []string{"-machine", "pc,accel=tcg", "-m", "256", "-nodefaults", "-display", "none",
		"-kernel", img.Kernel, "-initrd", initrd, "-append", "console=ttyS0 rdinit=/lvslab-agent " + images.KernelArgs,
		"-drive", "file=" + img.Root + ",format=raw,if=virtio,readonly=on", "-device", "virtio-serial-pci", "-device", "virtio-rng-pci",
		"-serial", "stdio", "-no-reboot", "-nic", "none"}
	// The agent waits for its ports: a guest without them would never be ready.
	for i, port := range append([]string{proto.EnginePort}, proto.UserPorts...) {
		args = append(args, "-chardev", fmt.Sprintf("null,id=c%d", i), "-device", fmt.Sprintf("virtserialport,chardev=c%d,name=%s", i, port))
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "lvslab-agent: ports open") {
			return nil
		}
	}
	return fmt.Errorf("the guest ended without opening its ports")
}

func planTime(b *testing.B) float64 {
	s := benchSite(b)
	return s.must(0, time.Minute, "plan", "builtin:lvs-tun-dns").took.Seconds()
}

type applied struct {
	created, firstAnswer, destroyed float64
	run, load, settle               float64 // means over the runs
}

// measureApply applies the paper's study with two blocks and reads the phases
// from the event stream and the loads from the artifact.
func measureApply(b *testing.B) applied {
	b.Helper()
	s := benchSite(b)
	r := s.must(0, 10*time.Minute, "apply", "--json", "-var", "iterations=2", "builtin:lvs-tun-dns")
	var m applied
	at := map[string]float64{}
	runs := 0
	for _, line := range strings.Split(r.stdout, "\n") {
		var e struct {
			Type, Phase, State string
			At                 float64 `json:"at_s"`
			Took               float64 `json:"took_ns"`
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		switch {
		case e.Type == "phase":
			at[e.Phase+" "+e.State] = e.At
		case e.Type == "run" && e.State == "done":
			m.run += e.Took / 1e9
			runs++
		}
	}
	m.created = at["create done"] - at["create started"]
	m.destroyed = at["destroy done"] - at["destroy started"]
	a := s.latest("lvs-tun-dns")
	m.firstAnswer = *a.Manifest().Timings.FirstAnswerS
	for _, run := range a.Runs() {
		m.load += *run.ResolvedS
		m.settle += settleWait(b, filepath.Join(a.Dir(), "raw", run.RunID))
	}
	m.run, m.load, m.settle = m.run/float64(runs), m.load/float64(runs), m.settle/float64(runs)
	return m
}

// settleWait is how long the run waited for IPVS's estimator, seconds.
func settleWait(b *testing.B, dir string) float64 {
	raw, err := os.ReadFile(filepath.Join(dir, "counters-after.json"))
	if err != nil {
		b.Fatal(err)
	}
	var c struct {
		IPVS struct {
			WaitedMS float64 `json:"waited_ms"`
		} `json:"ipvs"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		b.Fatal(err)
	}
	return c.IPVS.WaitedMS / 1000
}
