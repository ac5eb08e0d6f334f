package artifact

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TimeFormat is how times are written in tables: UTC, microseconds.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// listSeparator stands between the items of a cell that holds a list.
const listSeparator = ";"

func text[T any](name string, required bool, description, source string, at func(*T) *string) column[T] {
	return column[T]{name: name, typ: "string", required: required, description: description, source: source,
		get: func(r *T) (string, error) { return *at(r), checkText(*at(r)) },
		set: func(r *T, s string) error { *at(r) = s; return checkText(s) },
	}
}

// checkText refuses line breaks and other control characters in a cell: with
// them a torn last line could not be told from a whole one, and line tools
// would count wrongly.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%q is not UTF-8", s)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%q holds a control character", s)
	}
	return nil
}

func integer[T any](name, unit, description, source string, at func(*T) *int) column[T] {
	return column[T]{name: name, typ: "integer", unit: unit, required: true, description: description, source: source,
		get: func(r *T) (string, error) { return strconv.Itoa(*at(r)), nil },
		set: func(r *T, s string) (err error) { *at(r), err = strconv.Atoi(s); return err },
	}
}

func integer64[T any](name, unit, description, source string, at func(*T) *int64) column[T] {
	return column[T]{name: name, typ: "integer", unit: unit, required: true, description: description, source: source,
		get: func(r *T) (string, error) { return strconv.FormatInt(*at(r), 10), nil },
		set: func(r *T, s string) (err error) { *at(r), err = strconv.ParseInt(s, 10, 64); return err },
	}
}

func optionalInteger[T any](name, unit, description, source string, at func(*T) **int) column[T] {
	return column[T]{name: name, typ: "integer", unit: unit, description: description, source: source,
		get: func(r *T) (string, error) {
			if *at(r) == nil {
				return "", nil
			}
			return strconv.Itoa(**at(r)), nil
		},
		set: func(r *T, s string) error {
			if s == "" {
				*at(r) = nil
				return nil
			}
			v, err := strconv.Atoi(s)
			*at(r) = &v
			return err
		},
	}
}

func optionalInteger64[T any](name, unit, description, source string, at func(*T) **int64) column[T] {
	return column[T]{name: name, typ: "integer", unit: unit, description: description, source: source,
		get: func(r *T) (string, error) {
			if *at(r) == nil {
				return "", nil
			}
			return strconv.FormatInt(**at(r), 10), nil
		},
		set: func(r *T, s string) error {
			if s == "" {
				*at(r) = nil
				return nil
			}
			v, err := strconv.ParseInt(s, 10, 64)
			*at(r) = &v
			return err
		},
	}
}

// number is an optional decimal with a fixed number of places. Places are
// chosen by what the source resolves: 6 for seconds (captures and dnsperf),
// shares and indexes, 3 for rates.
func number[T any](name, unit string, places int, description, source string, at func(*T) **float64) column[T] {
	return column[T]{name: name, typ: "number", unit: unit, description: description, source: source,
		get: func(r *T) (string, error) {
			v := *at(r)
			if v == nil {
				return "", nil
			}
			if math.IsNaN(*v) || math.IsInf(*v, 0) {
				return "", fmt.Errorf("%v is not a number that a table can hold", *v)
			}
			return strconv.FormatFloat(*v, 'f', places, 64), nil
		},
		set: func(r *T, s string) error {
			if s == "" {
				*at(r) = nil
				return nil
			}
			v, err := strconv.ParseFloat(s, 64)
			if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
				err = fmt.Errorf("%q is not a number that a table can hold", s)
			}
			*at(r) = &v
			return err
		},
	}
}

func boolean[T any](name, description, source string, at func(*T) *bool) column[T] {
	return column[T]{name: name, typ: "boolean", required: true, description: description, source: source,
		get: func(r *T) (string, error) { return strconv.FormatBool(*at(r)), nil },
		set: func(r *T, s string) error {
			if s != "true" && s != "false" {
				return fmt.Errorf("%q is neither true nor false", s)
			}
			*at(r) = s == "true"
			return nil
		},
	}
}

// list is a cell of items separated by semicolons. An item is free text of the
// program's own; what would break the cell is replaced while writing.
func list[T any](name, description, source string, at func(*T) *[]string) column[T] {
	return column[T]{name: name, typ: "string", description: description + "; items separated by " + listSeparator, source: source,
		get: func(r *T) (string, error) {
			var items []string
			for _, item := range *at(r) {
				if item = cleanItem(item); item != "" {
					items = append(items, item)
				}
			}
			return strings.Join(items, listSeparator), nil
		},
		set: func(r *T, s string) error {
			*at(r) = nil
			if s == "" {
				return nil
			}
			*at(r) = strings.Split(s, listSeparator)
			return checkText(s)
		},
	}
}

func cleanItem(s string) string {
	s = strings.Map(func(c rune) rune { // also replaces what is not UTF-8
		switch {
		case c == ';':
			return ','
		case unicode.IsControl(c):
			return ' '
		}
		return c
	}, s)
	return strings.TrimSpace(s)
}

func startedAt() column[Run] {
	return column[Run]{name: "started_at", typ: "datetime", required: true,
		description: "when the load began, UTC", source: "host clock",
		get: func(r *Run) (string, error) { return r.StartedAt.UTC().Format(TimeFormat), nil },
		set: func(r *Run, s string) error {
			t, err := time.Parse(time.RFC3339Nano, s)
			r.StartedAt = t.UTC()
			return err
		},
	}
}

// factor is the column of one factor; empty when the run's treatment does not
// set it (controls).
func factor(name string) column[Run] {
	return column[Run]{name: FactorPrefix + name, typ: "string",
		description: "value of the factor " + name + "; empty when the treatment does not set it", source: "study",
		get: func(r *Run) (string, error) { return r.Factors[name], checkText(r.Factors[name]) },
		set: func(r *Run, s string) error {
			if s == "" {
				return nil
			}
			if r.Factors == nil {
				r.Factors = map[string]string{}
			}
			r.Factors[name] = s
			return checkText(s)
		},
	}
}

// runColumnsWith returns the columns of runs.csv with those of the factors in
// their place.
func runColumnsWith(factors []string) []column[Run] {
	out := append([]column[Run]{}, runColumns[:factorsAfter]...)
	for _, name := range factors {
		out = append(out, factor(name))
	}
	return append(out, runColumns[factorsAfter:]...)
}

// added marks a column that results lack which were made before there was one.
func added[T any](c column[T]) column[T] {
	c.later = true
	return c
}
