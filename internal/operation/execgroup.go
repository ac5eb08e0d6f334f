package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// execOnAll runs the command on several nodes at once, without standard input.
// Each line of output begins with its node. The exit code is that of the first
// node, in the lab's order, whose command did not end with 0.
func (l lab) execOnAll(ctx context.Context, nodes []string, o ExecOptions) (int, error) {
	var mu sync.Mutex
	codes, errs := make([]int, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			out, err := &lineWriter{to: o.Stdout, mu: &mu, prefix: node + ": "}, &lineWriter{to: o.Stderr, mu: &mu, prefix: node + ": "}
			one := ExecOptions{Node: node, Argv: o.Argv, Stdout: out, Stderr: err}
			codes[i], errs[i] = l.execOn(ctx, one)
			errs[i] = errors.Join(errs[i], out.finish(), err.finish())
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil && codes[i] == 0 {
			codes[i] = int(ExitError)
		}
	}
	code := 0
	for _, c := range codes {
		if c != 0 {
			code = c
			break
		}
	}
	return code, errors.Join(errs...)
}

// lineWriter writes whole lines, each after its prefix, so that the lines of
// several writers do not tear each other apart.
type lineWriter struct {
	to     io.Writer
	mu     *sync.Mutex
	prefix string
	rest   []byte
}

// longestLine is what is kept of a line that does not end.
const longestLine = 64 << 10

// Write implements io.Writer.
func (w *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if err := w.line(append(w.rest, b[:i]...)); err != nil {
			return 0, err
		}
		w.rest, b = w.rest[:0], b[i+1:]
	}
	w.rest = append(w.rest, b...)
	if len(w.rest) > longestLine {
		return n, w.finish()
	}
	return n, nil
}

// finish writes what has come after the last line's end.
func (w *lineWriter) finish() error {
	if len(w.rest) == 0 {
		return nil
	}
	err := w.line(w.rest)
	w.rest = w.rest[:0]
	return err
}

func (w *lineWriter) line(text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := fmt.Fprintf(w.to, "%s%s\n", w.prefix, text)
	return err
}
