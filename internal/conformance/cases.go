package conformance

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// Case is one conformance case.
type Case struct {
	Name string
	// Measured: the expectation was seen on a kernel; else it follows from source.
	Measured bool
	// Text is the case as written, Script the same read.
	Text   string
	Script ipvsmodel.Script
}

// Cases returns all of package ipvsmodel, in the order of the files.
func Cases() ([]Case, error) {
	paths, err := fs.Glob(ipvsmodel.Cases, "testdata/*.txtar")
	if err != nil {
		return nil, err
	}
	var out []Case
	for _, path := range paths {
		text, err := ipvsmodel.Cases.ReadFile(path)
		if err != nil {
			return nil, err
		}
		archive := txtar.Parse(text)
		for _, f := range archive.Files {
			text := string(archive.Comment) + string(f.Data)
			s, err := ipvsmodel.ParseScript(strings.NewReader(text))
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", path, f.Name, err)
			}
			out = append(out, Case{Name: f.Name, Measured: strings.HasPrefix(string(f.Data), "# measured:"), Text: text, Script: s})
		}
	}
	return out, nil
}

// How much waiting of a script is done in real time: by those that come one after
// the other, and by those that all wait together.
const (
	longest = 9 * time.Second
	longer  = 11 * time.Minute
)

// waits is how long a script waits in all.
func waits(s ipvsmodel.Script) (total time.Duration) {
	for _, step := range s.Steps {
		if step.Verb == "wait" {
			d, _ := time.ParseDuration(step.Args[0])
			total += d
		}
	}
	return total
}

// Unfit says why a script cannot be held against the kernel here, "" = it can.
// patient is for how long it may wait.
func Unfit(s ipvsmodel.Script, schedulers []string, patient time.Duration) string {
	for _, step := range s.Steps {
		switch step.Verb {
		case "kernel":
			return "rules of another kernel"
		case "seed":
			return "chance"
		case "reply":
			return "replies of real servers"
		case "service", "edit":
			if !slices.Contains(schedulers, step.Args[2]) {
				return "kernel has no " + step.Args[2]
			}
			if !isPrefix(step.Options["netmask"]) {
				return "a netmask that is no prefix"
			}
		case "counters":
			if _, ok := step.Options["conns"]; ok {
				return "counters that lag"
			}
			if _, ok := step.Options["packets"]; ok {
				return "counters that lag"
			}
		}
	}
	if w := waits(s); w > patient {
		return fmt.Sprintf("needs %v", w)
	}
	return ""
}

// isPrefix says whether package proto, which has lengths of 1 to 32 and 0 for
// none, can write a netmask.
func isPrefix(mask string) bool {
	if mask == "" {
		return true
	}
	a, err := netip.ParseAddr(mask)
	if err != nil || !a.Is4() {
		return false
	}
	b := a.As4()
	bits := binary.BigEndian.Uint32(b[:])
	return bits != 0 && ^bits&(^bits+1) == 0
}

// observable has one word for every packet that no backend gets.
func observable(s ipvsmodel.Script) ipvsmodel.Script {
	nobody := []string{"no-service", "not-a-start", "gone"}
	out := ipvsmodel.Script{Steps: slices.Clone(s.Steps)}
	for i, step := range out.Steps {
		out.Steps[i].Want = slices.Clone(step.Want)
		for j, w := range step.Want {
			if slices.Contains(nobody, w) {
				out.Steps[i].Want[j] = "no-destination"
			}
		}
		if step.Verb != "tally" {
			continue
		}
		merged, n := map[string]string{}, 0
		for k, v := range step.Options {
			if k != "no-destination" && !slices.Contains(nobody, k) {
				merged[k] = v
			} else if x, err := strconv.Atoi(v); err == nil {
				n += x
			}
		}
		if n > 0 {
			merged["no-destination"] = strconv.Itoa(n)
		}
		out.Steps[i].Options = merged
	}
	return out
}
