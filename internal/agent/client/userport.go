package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

// PortHolder says who uses a user port.
type PortHolder struct {
	Port    string    `json:"port"`
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// Claim is a user port that this process holds. A second client of the same
// socket would connect and hang, so a lock file stands before each port.
type Claim struct {
	Port string
	file *os.File
}

// ErrPortsBusy is wrapped when all user ports of a machine are in use.
var ErrPortsBusy = errors.New("all user ports are in use")

// ClaimUserPort takes the first free user port of a machine. dir is the lab's
// directory for lock files; it is made when missing. command is what to tell
// others about the use. The lock ends with the process at the latest.
func ClaimUserPort(dir, node, command string) (*Claim, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var holders []PortHolder
	for _, port := range proto.UserPorts {
		f, err := os.OpenFile(filepath.Join(dir, lockName(node, port)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			holders = append(holders, readHolder(f, port))
			f.Close()
			continue
		}
		if err == nil {
			err = writeHolder(f, PortHolder{Port: port, PID: os.Getpid(), Command: command, Since: time.Now().Truncate(time.Second)})
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock of port %s: %w", port, err)
		}
		return &Claim{Port: port, file: f}, nil
	}
	return nil, busy(node, holders)
}

// Release gives the port back.
func (c *Claim) Release() {
	_ = c.file.Truncate(0)
	_ = c.file.Close()
}

func busy(node string, holders []PortHolder) error {
	var who []string
	for _, h := range holders {
		who = append(who, fmt.Sprintf("pid %d, %s, since %s", h.PID, h.Command, h.Since.Format(time.TimeOnly)))
	}
	return diag.Fail(ErrPortsBusy, "No free port to "+node, "End one of these commands, or wait for one of them.",
		"its %d user ports are held by: %s", len(holders), strings.Join(who, "; "))
}

func lockName(node, port string) string { return url.PathEscape(node) + "." + port + ".lock" }

func writeHolder(f *os.File, h PortHolder) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return err
}

// readHolder returns what is known: the holder may just be writing it.
func readHolder(f *os.File, port string) PortHolder {
	h := PortHolder{Port: port, Command: "not yet known"}
	if text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10)); err == nil {
		_ = json.Unmarshal(text, &h)
	}
	return h
}
