package ipvs

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound says that the service named does not exist.
	ErrNotFound = errors.New("no such service")
	// ErrInvalid says that the arguments can't be right; the kernel was not asked.
	ErrInvalid = errors.New("invalid service")
)

// MissingModuleError says that the running kernel lacks modules. Modules holds
// their names, for example ip_vs_twos.
type MissingModuleError struct {
	Modules []string
	Detail  string // what modprobe said, or why the kernel is too old
}

func (e *MissingModuleError) Error() string {
	s := "the kernel lacks " + strings.Join(e.Modules, ", ")
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// MismatchError says that something was written and read back differently.
type MismatchError struct {
	Subject string // udp 198.18.0.101:53, net.ipv4.vs.conntrack, …
	What    string // scheduler, destination order, …
	Want    string
	Got     string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: %s: wrote %s, read back %s", e.Subject, e.What, e.Want, e.Got)
}

// TableNotEmptyError says that the connection table still had rows when the
// time was up.
type TableNotEmptyError struct {
	Rows    int
	Example string // the first row
}

func (e *TableNotEmptyError) Error() string {
	return fmt.Sprintf("the connection table still holds %d rows, the first is %s", e.Rows, e.Example)
}
