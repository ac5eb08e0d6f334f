package load

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
)

// readRows reads a table that this package wrote, row by row. An error names the
// file, and the line where there is one.
func readRows[T any](r io.Reader, file string, columns []string, row func([]string) (T, error)) ([]T, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !slices.Equal(head, columns) {
		return nil, fmt.Errorf("%s: the columns are %q, want %q", file, head, columns)
	}
	var out []T
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		v, err := row(fields)
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("%s line %d: %w", file, line, err)
		}
		out = append(out, v)
	}
}
