package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// How often ports that are not there yet are looked for: the driver names them
// one message at a time, all within a few milliseconds.
const (
	searchFast = 2 * time.Millisecond
	searchSlow = time.Second
	fastFor    = 5 * time.Second
)

// ServeVirtio finds the virtio-serial ports by name and serves them until ctx
// ends. It says on the console when the engine's port is open.
func (s *Server) ServeVirtio(ctx context.Context) error {
	var ports sync.WaitGroup
	defer ports.Wait()
	missing := append([]string{proto.EnginePort}, proto.UserPorts...)
	begin := time.Now()
	for len(missing) > 0 && ctx.Err() == nil {
		var still []string
		for _, name := range missing {
			device, found := FindPort(name)
			if !found {
				still = append(still, name)
				continue
			}
			port, err := OpenVirtioPort(name, device)
			if err != nil {
				return err
			}
			if name == proto.EnginePort {
				s.log(fmt.Sprintf("ports open, %.2f s after boot", uptime()))
			}
			ports.Go(func() {
				if err := s.ServePort(ctx, port); err != nil && ctx.Err() == nil {
					s.log(err.Error())
				}
			})
		}
		missing = still
		pause := searchFast
		if time.Since(begin) > fastFor {
			pause = searchSlow
		}
		if len(missing) > 0 {
			time.Sleep(pause)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}
