package operation

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Shard is a share of a study's blocks: the i-th of n, "" = all of them. Every n-th
// block belongs to it, from block i on: that stays so when blocks are added, and
// no machine has only the early or only the late ones.
type Shard struct{ i, of int }

// ParseShard reads "i/n".
func ParseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	first, second, ok := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	if !ok || err1 != nil || err2 != nil || n < 1 || i < 1 || i > n {
		return Shard{}, fmt.Errorf("a share is i/n, the i-th of n, as 1/2; got %q", text)
	}
	return Shard{i, n}, nil
}

// String returns "i/n", "" for all blocks.
func (s Shard) String() string {
	if s.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.i, s.of)
}

// has reports whether a block, from 1, belongs to the share.
func (s Shard) has(block int) bool { return s.of == 0 || (block-1)%s.of == s.i-1 }

// Set and Type make it a flag.
func (s *Shard) Set(text string) (err error) { *s, err = ParseShard(text); return err }

// Type is what --help calls the value.
func (s *Shard) Type() string { return "I/N" }

// MarshalJSON writes "i/n".
func (s Shard) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads it.
func (s *Shard) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return s.Set(text)
}
