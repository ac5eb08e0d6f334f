package operation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// cleanUpWithin is how long a guest may take to remove what an interrupted copy
// has begun.
const cleanUpWithin = 3 * time.Second

// Copy copies files and directories between this machine and nodes of a lab that
// is up, or between nodes, while an experiment is running, too. As with scp, an
// existing directory as the target takes the sources with their names, and more
// than one source needs such a one. A target may be a group: every node of it gets
// the files. A file gets its name when it is complete; one that is already there is
// replaced then.
func Copy(ctx context.Context, s *Settings, o CopyOptions) (Exit, error) {
	l, err := s.findLab(ctx, o.Lab)
	if err != nil {
		return ExitError, err
	}
	c := &copying{ctx: ctx, lab: l, recursive: o.Recursive, open: map[string]files{}}
	defer c.close()
	to, err := c.ends(o.To, true)
	if err != nil {
		return ExitError, err
	}
	for _, f := range o.From {
		from, err := c.ends(f, false)
		if err != nil {
			return ExitError, err
		}
		for _, target := range to {
			if err := c.copy(from[0], target, len(o.From) > 1); err != nil {
				return ExitError, err
			}
		}
	}
	return ExitDone, nil
}

// copying is one call of cp.
type copying struct {
	ctx       context.Context
	lab       lab
	recursive bool
	open      map[string]files // by node, "" = here
	release   []func()
}

// end is where to copy from or to.
type end struct {
	node  string // "" = here
	path  string
	files files
}

func (e end) String() string {
	if e.node == "" {
		return e.path
	}
	return e.node + ":" + e.path
}

func (c *copying) close() {
	for _, f := range c.release {
		f()
	}
}

// ends reads one argument; only a target may be a group.
func (c *copying) ends(arg string, target bool) ([]end, error) {
	words, where, remote := cutNode(arg)
	if !remote {
		return []end{{path: arg, files: hostFiles{}}}, nil
	}
	nodes, _, err := c.lab.group(words)
	if err != nil {
		return nil, err
	}
	if len(nodes) > 1 && !target {
		return nil, diag.Fail(nil, "More than one source node", "Name one of "+strings.Join(nodes, ", ")+".", "%q are %d nodes, whose files would have the same names", words, len(nodes))
	}
	if where == "" {
		where = "." // the home directory
	}
	var out []end
	for _, n := range nodes {
		f, err := c.reach(n)
		if err != nil {
			return nil, err
		}
		out = append(out, end{n, where, f})
	}
	return out, nil
}

// reach opens a node's files once.
func (c *copying) reach(node string) (files, error) {
	if f, ok := c.open[node]; ok {
		return f, nil
	}
	d, err := c.lab.machine(node)
	if err != nil {
		return nil, err
	}
	conn, release, err := c.lab.dialUser(c.ctx, node, d, "lvslab cp")
	if err != nil {
		return nil, err
	}
	sf, err := conn.SFTP()
	if err != nil {
		release()
		return nil, err
	}
	// What was begun is removed over this connection; one that does not answer is given up.
	stop := context.AfterFunc(c.ctx, func() { time.AfterFunc(cleanUpWithin, func() { conn.Close() }) })
	c.release = append(c.release, func() { stop(); sf.Close(); release() })
	f := nodeFiles{sf}
	c.open[node] = f
	return f, nil
}

// cutNode cuts NODE:PATH at its colon. As with scp, a slash before the first colon
// makes it a path here; the keys of instances may hold both.
func cutNode(arg string) (node, where string, remote bool) {
	inKey, quoted := false, false
	for i := 0; i < len(arg); i++ {
		switch ch := arg[i]; {
		case quoted && ch == '\\':
			i++
		case inKey && ch == '"':
			quoted = !quoted
		case quoted:
		case ch == '[':
			inKey = true
		case ch == ']':
			inKey = false
		case inKey:
		case ch == '/':
			return "", "", false
		case ch == ':':
			return arg[:i], arg[i+1:], i > 0
		}
	}
	return "", "", false
}

// copy copies one source to one target.
func (c *copying) copy(from, to end, several bool) error {
	info, err := from.files.Stat(from.path)
	if err != nil {
		return c.wrong(from, err, "")
	}
	if info.IsDir() && !c.recursive {
		return diag.Fail(nil, "Cannot copy a directory", "Copy it with -r.", "%s is a directory", from)
	}
	into, err := to.files.Stat(to.path)
	switch {
	case err == nil && into.IsDir():
		to.path = path.Join(to.path, path.Base(filepath.ToSlash(from.path)))
	case err == nil && (several || info.IsDir()), errors.Is(err, fs.ErrNotExist) && several:
		return diag.Fail(err, "Cannot copy into "+to.String(), "Name a directory that exists.", "%s is no directory", to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return c.wrong(to, err, "")
	}
	if from.node == to.node && path.Clean(from.path) == path.Clean(to.path) {
		return diag.Fail(nil, "Cannot copy a file onto itself", "Name another target.", "%s and %s are the same", from, to)
	}
	return c.tree(from, to, info)
}

// tree copies a file, or a directory with what is in it.
func (c *copying) tree(from, to end, info fs.FileInfo) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return diag.Fail(nil, "Cannot copy "+from.String(), "Leave it out; only files and directories are copied.", "it is a %s", kindOf(info.Mode()))
		}
		if err := transfer(c.ctx, from, to, info.Mode().Perm()); err != nil {
			return c.wrong(to, err, "copy "+from.String()+" to ")
		}
		return nil
	}
	if err := to.files.Mkdir(to.path); err != nil {
		return c.wrong(to, err, "")
	}
	list, err := from.files.ReadDir(from.path)
	if err != nil {
		return c.wrong(from, err, "")
	}
	for _, e := range list {
		f, t := from, to
		f.path, t.path = path.Join(from.path, e.Name()), path.Join(to.path, e.Name())
		info, err := f.files.Stat(f.path)
		if err != nil {
			return c.wrong(f, err, "")
		}
		if err := c.tree(f, t, info); err != nil {
			return err
		}
	}
	return nil
}

// wrong names the end at which something went wrong; an interrupted copy says no more.
func (c *copying) wrong(e end, err error, doing string) error {
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	remedy := "Look at the path and at who may use it."
	if errors.Is(err, fs.ErrNotExist) {
		remedy = "Look at the spelling of the path."
		if e.node == "" {
			if n, _, ok := strings.Cut(e.path, "/"); ok {
				if _, perr := addr.ParseNoun(n); perr == nil {
					remedy += " Files of a node are written NODE:PATH."
				}
			}
		}
	}
	return diag.Fail(err, "Cannot copy", remedy, "%s%s: %v", doing, e, err)
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link that leads nowhere"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return fmt.Sprintf("file of mode %s", m)
}
