package server

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var errNamedEnded = errors.New("named ended")

// namedProgram runs named in the foreground with its log on stderr, whatever the
// configuration says about logging (-g). addTo says why it has a UTS namespace of
// its own. It begins a line with 02-Dec-2026 01:35:04.185.
var namedProgram = daemonProgram{
	name: "named", args: []string{"-g", "-u", "bind", "-n", "1", "-c", namedDir + "/" + namedConfFile}, dir: namedDir, logFile: namedLogFile,
	stamp:   regexp.MustCompile(`^\d\d-\w{3}-\d{4} \d\d:\d\d:\d\d\.\d{3} `),
	version: regexp.MustCompile(`^starting BIND (\d+(?:\.\d+)*)`),
}

// reloadFailed begins the last line of a reload that changed nothing.
const reloadFailed = "reloading configuration failed"

// await waits until named says that it is running, at the end of a start and of
// a reload, and what has become of each of the zones (a reload loads them after
// it has said so), or that a reload has failed. It returns the lines since the
// mark, also with an error.
func (p *daemon) await(ctx context.Context, mark int, zones []string) ([]string, error) {
	for {
		p.mu.Lock()
		lines, grown := p.lines[mark:], p.grown
		p.mu.Unlock()
		if loaded(lines, zones) {
			return lines, nil
		}
		select {
		case <-grown:
		case <-p.exited:
			return lines, fmt.Errorf("%w: %s", errNamedEnded, reasonOfEnd(lines))
		case <-ctx.Done():
			return lines, fmt.Errorf("named is not running yet: %w", ctx.Err())
		}
	}
}

// loaded reports whether the lines hold the end of a start or reload.
func loaded(lines, zones []string) bool {
	running, settled := false, 0
	for _, l := range lines {
		if strings.HasPrefix(l, reloadFailed) {
			return true
		}
		running = running || l == "running"
		for _, z := range zones {
			text, about := strings.CutPrefix(l, zoneLine(z))
			if about && (strings.HasPrefix(text, zoneLoaded) || strings.HasPrefix(text, zoneRefused)) {
				settled++
			}
		}
	}
	return running && settled >= len(zones)
}

// reasonOfEnd picks the lines that say why: those about the configuration, else
// the last ones.
func reasonOfEnd(lines []string) string {
	var why []string
	for _, l := range lines {
		if strings.Contains(l, "named.conf:") {
			why = append(why, l)
		}
	}
	if len(why) == 0 {
		why = lines[max(0, len(lines)-3):]
	}
	return strings.Join(why, "; ")
}
