package lab

import (
	"bytes"
	"context"
	"fmt"

	"github.com/lvslab/lvslab/internal/operation"
)

// Ended is a command that has ended.
type Ended struct {
	Stdout, Stderr []byte
	// Code is the exit code; 128 and the signal's number when a signal ended it.
	Code int
}

// Err is nil when the command ended with 0, else what it said.
func (e Ended) Err() error {
	if e.Code == 0 {
		return nil
	}
	return fmt.Errorf("exit code %d: %s", e.Code, bytes.TrimSpace(e.Stderr))
}

// Exec runs a command on a machine (director.lb, backend.ns[0]) and waits for its
// end, without standard input. A command that ends with another code than 0 is no
// error here: see [Ended]. machine may stand for several, as for lvslab exec; each
// line then begins with its machine, and the code is the first that is not 0. It
// works while [Lab.Run] runs; up to four commands at once on one machine.
func (l *Lab) Exec(ctx context.Context, machine string, argv ...string) (Ended, error) {
	var out, errOut bytes.Buffer
	ctx, _, cancel := l.within(ctx)
	defer cancel()
	s, end := l.settings(nil)
	defer end()
	code, err := operation.Exec(ctx, s, operation.ExecOptions{Lab: l.topology, Node: machine, Argv: argv, Stdout: &out, Stderr: &errOut})
	return Ended{out.Bytes(), errOut.Bytes(), code}, explainable(l.inTime(ctx, err), s)
}
