package artifact

import (
	"encoding/json"
	"fmt"
)

// Share is a share of a study's blocks: the I-th of N, from 1; zero = all of them.
// Every N-th block belongs to it, from block I on: that stays so when blocks are
// added, and no machine has only the early or only the late ones. The study, its
// plan and the ids of its runs are the same in every share.
type Share struct{ I, N int }

// ParseShare reads "i/n", "" as all blocks.
func ParseShare(text string) (Share, error) {
	if text == "" {
		return Share{}, nil
	}
	var s Share
	var rest string
	if got, _ := fmt.Sscanf(text, "%d/%d%s", &s.I, &s.N, &rest); got != 2 || s.I < 1 || s.I > s.N || s.String() != text {
		return Share{}, fmt.Errorf("a share is i/n, the i-th of n, as 1/2; got %q", text)
	}
	return s, nil
}

// String returns "i/n", "" for all blocks.
func (s Share) String() string {
	if s.All() {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.I, s.N)
}

// All reports whether it is no share but the whole.
func (s Share) All() bool { return s.N == 0 }

// Has reports whether a block, from 1, belongs to the share.
func (s Share) Has(block int) bool { return s.All() || (block-1)%s.N == s.I-1 }

// Set and Type make it a flag.
func (s *Share) Set(text string) (err error) { *s, err = ParseShare(text); return err }

// Type is what --help calls the value.
func (s *Share) Type() string { return "I/N" }

// MarshalJSON writes "i/n".
func (s Share) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads it.
func (s *Share) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return s.Set(text)
}
