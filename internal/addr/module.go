package addr

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Module is the path of an instance of a module as users write it:
// module.site, module.a[0].module.b["k"]. The root is "".
type Module string

// Child is the path of an instance of a module that this one calls.
func (m Module) Child(label string, k Key) Module {
	return Module(m.prefix() + "module." + label + k.String())
}

// Join is the path of what is at rel inside this module.
func (m Module) Join(rel Module) Module {
	if rel == "" {
		return m
	}
	return Module(m.prefix() + string(rel))
}

func (m Module) prefix() string {
	if m == "" {
		return ""
	}
	return string(m) + "."
}

// Contains reports whether the other path is this one or lies inside it.
func (m Module) Contains(o Module) bool {
	return m == "" || o == m || strings.HasPrefix(string(o), string(m)+".")
}

// Compare orders paths by their steps, what contains before what is contained,
// indexes by number.
func (m Module) Compare(o Module) int {
	if m == o {
		return 0
	}
	for a, b := string(m), string(o); ; {
		if a == "" || b == "" {
			return cmp.Compare(len(a), len(b))
		}
		na, ra, erra := step(a)
		nb, rb, errb := step(b)
		if erra != nil || errb != nil { // nobody makes such paths
			return cmp.Compare(m, o)
		}
		if c := na.Compare(nb); c != 0 {
			return c
		}
		a, b = ra, rb
	}
}

// Calls takes a path apart: the call of each step, as nouns of kind module.
func (m Module) Calls() []Noun {
	var out []Noun
	at := Module("")
	for rest := string(m); rest != ""; {
		n, after, err := step(rest)
		if err != nil {
			return out
		}
		n.Module = at
		out = append(out, n)
		at, rest = at.Child(n.Label, n.Key), after
	}
	return out
}

// step reads the first module.LABEL[KEY] of a text and returns what follows
// behind the dot.
func step(s string) (Noun, string, error) {
	rest, ok := strings.CutPrefix(s, "module.")
	if !ok {
		return Noun{}, "", fmt.Errorf("%q is no module", s)
	}
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	n := Noun{Kind: ModuleCall, Label: rest[:end]}
	rest = rest[end:]
	var err error
	if strings.HasPrefix(rest, "[") {
		if n.Key, rest, err = cutKey(rest); err != nil {
			return Noun{}, "", err
		}
	}
	if err := checkLabel(n.Label); err != nil {
		return Noun{}, "", err
	}
	if rest == "" {
		return n, "", nil
	}
	after, dot := strings.CutPrefix(rest, ".")
	if !dot || after == "" {
		return Noun{}, "", fmt.Errorf("what follows module %q must be a dot and a block", n.Label)
	}
	return n, after, nil
}

// cutKey reads an instance key, [0] or ["a"], and returns what follows.
func cutKey(s string) (Key, string, error) {
	inner := s[1:]
	if quoted, err := strconv.QuotedPrefix(inner); err == nil && strings.HasPrefix(inner, `"`) {
		name, err := strconv.Unquote(quoted)
		rest, closed := strings.CutPrefix(inner[len(quoted):], "]")
		if err != nil || !closed {
			return NoKey, "", fmt.Errorf("the instance key has no closing bracket")
		}
		return Name(name), rest, nil
	}
	text, rest, closed := strings.Cut(inner, "]")
	if !closed {
		return NoKey, "", fmt.Errorf("the instance key has no closing bracket")
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || strconv.Itoa(i) != text {
		return NoKey, "", fmt.Errorf("the instance key must be a number or a quoted string")
	}
	return Index(i), rest, nil
}

func checkLabel(label string) error {
	if label == "" || strings.ContainsAny(label, `./[]" `) {
		return fmt.Errorf("%q is not a label", label)
	}
	return nil
}
