package conformance

import "slices"

// Minimise takes lines away as long as differs holds of the rest, in ever
// smaller pieces (Zeller and Hildebrandt's delta debugging, TSE 28(2), 2002):
// no single line of what comes out can be left out.
func Minimise(lines []string, differs func([]string) bool) []string {
	for pieces := 2; len(lines) > 1; {
		size := (len(lines) + pieces - 1) / pieces
		smaller := false
		for at := 0; at < len(lines); at += size {
			rest := slices.Concat(lines[:at], lines[min(at+size, len(lines)):])
			if differs(rest) {
				lines, smaller = rest, true
				pieces = max(pieces-1, 2)
				break
			}
		}
		if smaller {
			continue
		}
		if size == 1 {
			break
		}
		pieces = min(pieces*2, len(lines))
	}
	return lines
}
