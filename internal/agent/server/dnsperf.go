package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

func registerLoad(s *Server) {
	Handle(s, proto.DNSPerf, dnsperf)
	Handle(s, proto.DNSLoad, files{root: FileRoot}.generate)
}

const (
	// dnsperfOutput bounds each of the two outputs: a run that loses everything
	// prints a line for each query.
	dnsperfOutput = 1 << 20
	// dnsperfGrace is what dnsperf gets to print its report after an interrupt.
	dnsperfGrace = time.Second
	// outputWithin is how long what it printed may take to be read once it has ended.
	// One second was too short for 24 at once in one emulated guest on a loaded
	// machine: about one report in a thousand got lost.
	outputWithin = 30 * time.Second
)

// dnsperf runs the program in a process group of its own. When the time is up
// it is interrupted, which makes it print its report, and then killed; an exit
// status of -1 says that a signal ended it.
func dnsperf(ctx context.Context, spec proto.DNSPerfSpec) (proto.DNSPerfResult, error) {
	if spec.From.IsValid() && !slices.Contains(spec.Args, spec.From.String()) {
		return proto.DNSPerfResult{}, fail(proto.CodeInvalid, spec.From.String(), "the arguments %q do not send from this address", spec.Args)
	}
	path, err := lookPath("dnsperf")
	if err != nil {
		return proto.DNSPerfResult{}, fail(proto.CodeUnsupported, "dnsperf", "the guest has no dnsperf")
	}
	if err := awaitStart(ctx, spec.StartNS); err != nil {
		return proto.DNSPerfResult{}, err
	}
	return runLoad(ctx, path, spec)
}

func runLoad(ctx context.Context, path string, spec proto.DNSPerfSpec) (proto.DNSPerfResult, error) {
	out, errs := &bounded{limit: dnsperfOutput}, &bounded{limit: dnsperfOutput}
	cmd := &exec.Cmd{Path: path, Args: append([]string{path}, spec.Args...), Env: environment(), Dir: "/",
		Stdout: out, Stderr: errs, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: outputWithin}
	result := proto.DNSPerfResult{Start: time.Now()}
	if err := cmd.Start(); err != nil {
		return result, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := await(ctx, cmd.Process.Pid, ended, time.Duration(spec.TimeoutMS)*time.Millisecond)
	result.Wall = time.Since(result.Start)
	result.Stdout, result.Stderr, result.Exit = out.String(), errs.String(), cmd.ProcessState.ExitCode()
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) && !errors.Is(err, exec.ErrWaitDelay) {
		return result, err
	}
	return result, nil
}

// await waits for the process to end; within 0 = for ever.
func await(ctx context.Context, pid int, ended chan error, within time.Duration) error {
	var up <-chan time.Time
	if within > 0 {
		t := time.NewTimer(within)
		defer t.Stop()
		up = t.C
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-up:
		_ = syscall.Kill(-pid, syscall.SIGINT)
		grace := time.NewTimer(dnsperfGrace)
		defer grace.Stop()
		select {
		case err := <-ended:
			return err
		case <-grace.C:
		case <-ctx.Done():
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return <-ended
}

// bounded keeps the first and the last bytes of an output and says how many it
// left out between.
type bounded struct {
	limit      int // bytes of each end
	head, tail bytes.Buffer
	lost       int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.limit - b.head.Len(); room > 0 {
		k := min(room, len(p))
		b.head.Write(p[:k])
		p = p[k:]
	}
	b.tail.Write(p)
	if over := b.tail.Len() - b.limit; over > b.limit { // seldom, so that it stays cheap
		b.tail.Next(over)
		b.lost += over
	}
	return n, nil
}

func (b *bounded) String() string {
	if b.lost == 0 {
		return b.head.String() + b.tail.String()
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", b.head.String(), b.lost, b.tail.String())
}
