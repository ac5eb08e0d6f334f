// Command lvslab-agent runs inside every guest. As PID 1 it brings the guest up
// and starts itself again as a child; as that child, and when a foreign image's
// init starts it with "serve", it serves lvslab's virtio-serial ports.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/lvslab/lvslab/internal/agent/server"
	"github.com/lvslab/lvslab/internal/agent/server/boot"
	"github.com/lvslab/lvslab/internal/version"
)

// exitUsage is the exit code for wrong arguments, as in lvslab itself.
const exitUsage = 64

func main() {
	switch {
	case os.Getpid() == 1:
		boot.Init()
	case len(os.Args) == 2 && os.Args[1] == boot.ServeArgument:
		serve()
	case len(os.Args) == 2 && os.Args[1] == "version":
		fmt.Println(version.Version)
	default:
		fmt.Fprintf(os.Stderr, "usage: %s %s | version\n", os.Args[0], boot.ServeArgument)
		os.Exit(exitUsage)
	}
}

func serve() {
	// moby/ipvs runs modprobe when it is first opened, whether or not ip_vs is
	// there: 0.2 s under emulation. The agent loads modules itself and gives its
	// commands a PATH of their own, so nothing is to be found by this one.
	os.Unsetenv("PATH")
	logrus.SetLevel(logrus.ErrorLevel) // its warning about that
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s := server.New(ctx, server.Options{Version: version.Version, Log: boot.Say, Seed: server.SeedKernel})
	go func() {
		if err := server.BeginNetwork(); err != nil {
			boot.Say("network: " + err.Error())
		}
	}()
	if err := s.ServeVirtio(ctx); err != nil && ctx.Err() == nil {
		boot.Say("fatal: " + err.Error())
		os.Exit(1)
	}
}
