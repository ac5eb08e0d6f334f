package server

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpTries is how often a list is asked for that the kernel says has changed
// under it (NLM_F_DUMP_INTR, <linux/netlink.h>). Each try takes a millisecond,
// and what changes links and addresses beside the agent is over soon.
const dumpTries = 20

// dump asks the kernel for a list until it is one of a single moment. Seen once
// in some hundred labs: an address list while the tunnel beside it came up.
func dump[T any](list func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		found, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == dumpTries {
			return found, err
		}
	}
}
