package server

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestDumpAsksAgainWhenTheListChangedUnderIt(t *testing.T) {
	other := errors.New("no such device")
	for name, c := range map[string]struct {
		interrupted int
		then        error
		calls       int
		want        error
	}{
		"at once":          {0, nil, 1, nil},
		"the third time":   {2, nil, 3, nil},
		"another error":    {1, other, 2, other},
		"it never settles": {dumpTries + 5, nil, dumpTries, netlink.ErrDumpInterrupted},
	} {
		calls := 0
		got, err := dump(func() (int, error) {
			if calls++; calls <= c.interrupted {
				return 0, netlink.ErrDumpInterrupted
			}
			return 7, c.then
		})
		if calls != c.calls || !errors.Is(err, c.want) || c.want == nil && (err != nil || got != 7) {
			t.Errorf("%s: %d calls, %d, %v", name, calls, got, err)
		}
	}
}
