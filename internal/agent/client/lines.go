package client

import (
	"bytes"
	"os"
	"regexp"
	"strings"
)

// tailBytes is how much of a console's end is looked at for its last lines, allBytes
// how much for all of them: a distribution with its services writes some 30 KiB.
const (
	tailBytes = 16 << 10
	allBytes  = 1 << 20
)

// LastLines returns the last n lines of a console file, without carriage
// returns and control characters; none when the file can't be read.
func LastLines(path string, n int) []string {
	lines := linesOf(path, 0)
	return lines[max(0, len(lines)-n):]
}

// Lines is LastLines for all of the last MiB.
func Lines(path string) []string { return linesWithin(path, 0, allBytes) }

// linesOf is LastLines for all that is in the tail, after the first from bytes.
func linesOf(path string, from int64) []string { return linesWithin(path, from, tailBytes) }

func linesWithin(path string, from, most int64) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	from = max(from, st.Size()-most)
	if from > st.Size() {
		from = 0 // another log than the one that was measured
	}
	tail := make([]byte, st.Size()-from)
	read, _ := f.ReadAt(tail, from)
	var lines []string
	for line := range bytes.Lines(tail[:read]) {
		text := strings.TrimSpace(strings.Map(printable, escapes.ReplaceAllString(string(line), "")))
		if text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// escapes are the sequences by which systemd colours its lines and goes back to
// one: control sequences and those of one letter (ECMA-48, 5.3 and 5.4).
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\\]^_])`)

func printable(r rune) rune {
	if r < ' ' && r != '\t' || r == 0x7f {
		return -1
	}
	return r
}
