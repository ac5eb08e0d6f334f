package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// controlSerial asks named for the serial of a zone with the command zonestatus of
// rndc(8), which no counter of queries sees.
func controlSerial(ctx context.Context, at string, key controlKey, zone string) (uint32, error) {
	said, err := controlCommand(ctx, at, key, "zonestatus "+zone)
	if errors.Is(err, errRefused) {
		return 0, fmt.Errorf("%w: %v", errNotServed, err)
	}
	if err != nil {
		return 0, err
	}
	return parseZoneStatus(said)
}

// parseZoneStatus reads the serial out of what zonestatus prints, lines of
// "name: value". A zone that has not been loaded has the serial 0 there, and no
// time at which it was.
func parseZoneStatus(said string) (uint32, error) {
	values := map[string]string{}
	for line := range strings.Lines(said) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			values[name] = value
		}
	}
	if _, loaded := values["last loaded"]; !loaded {
		return 0, fmt.Errorf("%w: it has not been loaded", errNotServed)
	}
	v, err := strconv.ParseUint(values["serial"], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: serial %q", errControl, values["serial"])
	}
	return uint32(v), nil
}
