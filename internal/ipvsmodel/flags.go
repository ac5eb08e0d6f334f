package ipvsmodel

import "strings"

// flagWords are the names of the flags, lowest bit first.
var flagWords = []string{"syn", "fin", "rst", "ack"}

// String names the flags with commas, as a script has them; "none" without one.
func (f Flags) String() string {
	var out []string
	for i, w := range flagWords {
		if f&(1<<i) != 0 {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

// ParseFlags reads what [Flags.String] writes.
func ParseFlags(list string) (Flags, error) { return flagsOf(list) }
