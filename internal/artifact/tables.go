package artifact

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Tables are RFC 4180 with a header line, in UTF-8, lines ended by LF alone: a
// CR at the end of the last column is a trap for line tools, and every reader
// of CSV takes LF.

// encodeRow returns one line of a table.
func encodeRow(cells []string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(cells); err != nil {
		return nil, err
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func header[T any](columns []column[T]) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}

// cells renders one row; an error names the column.
func cells[T any](columns []column[T], row *T) ([]string, error) {
	out := make([]string, len(columns))
	for i, c := range columns {
		v, err := c.get(row)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		if v == "" && c.required {
			return nil, fmt.Errorf("column %s: empty, but it always has a value", c.name)
		}
		out[i] = v
	}
	return out, nil
}

// ErrTorn is wrapped by the error of a table whose last line is incomplete, as
// a crash in the middle of a write leaves it.
var ErrTorn = errors.New("the last line is incomplete")

// ReadRuns reads runs.csv. It returns the rows and the names of the factors in
// the order of their columns. When the last line is incomplete the error wraps
// [ErrTorn] and the rows before it are returned.
func ReadRuns(r io.Reader) ([]Run, []string, error) {
	var factors []string
	rows, err := readTable(r, RunsFile, func(head []string) ([]column[Run], error) {
		for _, name := range head {
			if f, ok := strings.CutPrefix(name, FactorPrefix); ok {
				factors = append(factors, f)
			}
		}
		return present(runColumnsWith(factors), head), nil
	})
	return rows, factors, err
}

// ReadBackends reads backends.csv, torn last lines as in [ReadRuns].
func ReadBackends(r io.Reader) ([]BackendRow, error) {
	return readTable(r, BackendsFile, func(head []string) ([]column[BackendRow], error) { return present(backendColumns, head), nil })
}

// present leaves out the columns that were added later and that a table does not have.
func present[T any](columns []column[T], head []string) []column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool { return c.later && !slices.Contains(head, c.name) })
}

// readTable reads a whole table. Columns must be exactly those of this schema
// version and in its order: a table that was cut or rearranged by hand is
// refused instead of misread.
func readTable[T any](r io.Reader, name string, columnsOf func(head []string) ([]column[T], error)) ([]T, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	torn := len(whole) != len(data)
	cr := csv.NewReader(bytes.NewReader(whole))
	cr.ReuseRecord = true
	head, err := cr.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("no header line: %w", ErrTorn)
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	columns, err := columnsOf(slices.Clone(head))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if err := sameHeader(head, header(columns)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var rows []T
	for {
		rec, err := cr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return rows, fmt.Errorf("read %s: %w", name, err)
		}
		line, _ := cr.FieldPos(0)
		row, err := decodeRow(columns, rec)
		if err != nil {
			return rows, fmt.Errorf("read %s: line %d: %w", name, line, err)
		}
		rows = append(rows, row)
	}
	if torn {
		return rows, fmt.Errorf("read %s: %w", name, ErrTorn)
	}
	return rows, nil
}

func decodeRow[T any](columns []column[T], rec []string) (T, error) {
	var row T
	for i, c := range columns {
		if rec[i] == "" && c.required {
			return row, fmt.Errorf("column %s: empty, but it always has a value", c.name)
		}
		if err := c.set(&row, rec[i]); err != nil {
			return row, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return row, nil
}

func sameHeader(got, want []string) error {
	for i, name := range got {
		if slices.Contains(got[:i], name) {
			return fmt.Errorf("column %s stands there twice", name)
		}
		if !slices.Contains(want, name) {
			return fmt.Errorf("column %s is not one of schema version %d", name, SchemaVersion)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			return fmt.Errorf("column %s is missing", name)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the columns are not in the order of schema version %d", SchemaVersion)
	}
	return nil
}
