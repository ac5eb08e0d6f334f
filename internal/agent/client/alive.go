package client

import (
	"context"
	"time"
)

// asksWithin is how often a guest is asked within the time that it may be silent.
const asksWithin = 4

// AwaitSilence asks the guest again and again whether it is there, and returns
// true when it has not answered for that long: it stands still, and its ports, which
// QEMU keeps open, do not tell. It returns false when ctx or the connection ends.
func (c *Conn) AwaitSilence(ctx context.Context, limit time.Duration) bool {
	if c.ssh == nil {
		return false
	}
	tick := time.NewTicker(limit / asksWithin)
	defer tick.Stop()
	answers := make(chan error, 1)
	waiting, heard := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case err := <-answers:
			if err != nil {
				return false // the connection has ended, which others see, too
			}
			waiting, heard = false, time.Now()
		case <-tick.C:
			if waiting && time.Since(heard) > limit {
				return true
			}
			if waiting {
				continue
			}
			waiting = true
			go func() { // it returns at the latest when the connection is closed
				_, _, err := c.ssh.SendRequest("keepalive@lvslab", true, nil)
				answers <- err
			}()
		}
	}
}
