package lab

import (
	"io"
	"time"

	"github.com/lvslab/lvslab/internal/operation"
)

// Option is a choice for a lab.
type Option func(*options)

type options struct {
	variables   []operation.Variable
	results     string
	output      io.Writer
	lockTimeout time.Duration
	keepFailed  bool
	text        []byte
}

// Text gives the topology as text: the path given as topology then names no file.
// Messages call the text by it, and the lab's directory .lvslab, and modules, are
// looked for beside it.
func Text(hcl string) Option { return func(o *options) { o.text = []byte(hcl) } }

// Var sets an input variable of the topology, as -var NAME=VALUE does: value is
// text for a variable of type string, and an expression of the language for any
// other.
func Var(name, value string) Option {
	return func(o *options) { o.variables = append(o.variables, operation.Variable{Name: name, Value: value}) }
}

// VarFile reads input variables from a file, as -var-file does. Of two values of a
// variable the later one holds.
func VarFile(path string) Option {
	return func(o *options) { o.variables = append(o.variables, operation.Variable{File: path}) }
}

// Results says where the artifacts of [Lab.Run] go: DIR/LAB/RUN. Without it they
// go to the test's [testing.TB.ArtifactDir], which `go test -artifacts` keeps, and
// for [Up] to "results" in the working directory.
func Results(dir string) Option { return func(o *options) { o.results = dir } }

// Output says where what lvslab does is told, as the commands tell it. Without it
// a test's goes to its log, and that of [Up] nowhere.
func Output(w io.Writer) Option { return func(o *options) { o.output = w } }

// LockTimeout is how long to wait for a lab that another process or test works on;
// without it that is an error at once.
func LockTimeout(d time.Duration) Option { return func(o *options) { o.lockTimeout = d } }

// KeepFailed leaves the lab of a test that has failed up, for a look: the log says
// how to take it down. Such a lab also outlives a process that dies.
func KeepFailed() Option { return func(o *options) { o.keepFailed = true } }
