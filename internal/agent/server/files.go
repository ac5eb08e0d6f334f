package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/lvslab/lvslab/internal/agent/proto"
)

// FileRoot is the only directory that the file calls reach. It lies on a tmpfs.
const FileRoot = "/run/lvslab"

func registerFiles(s *Server) {
	f := files{root: FileRoot}
	Handle(s, proto.FileWrite, f.write)
	Handle(s, proto.FileRead, f.read)
	Handle(s, proto.FileRemove, f.remove)
}

// files carries out the file calls below one directory. os.Root keeps symbolic
// links from leading out of it.
type files struct{ root string }

func (f files) write(_ context.Context, b proto.FileBody) (proto.None, error) {
	name, err := f.inside(b.Path)
	if err != nil {
		return proto.None{}, err
	}
	if err := os.MkdirAll(f.root, 0o755); err != nil {
		return proto.None{}, err
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return proto.None{}, err
	}
	defer root.Close()
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return proto.None{}, err
		}
	}
	return proto.None{}, root.WriteFile(name, b.Data, 0o644)
}

func (f files) read(_ context.Context, r proto.FileRef) (proto.FileBody, error) {
	name, err := f.inside(r.Path)
	if err != nil {
		return proto.FileBody{}, err
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return proto.FileBody{}, err
	}
	defer root.Close()
	data, err := root.ReadFile(name)
	if err != nil {
		return proto.FileBody{}, err
	}
	return proto.FileBody{Path: r.Path, Data: data}, nil
}

// remove takes a file or a directory away; one that is missing is no error.
func (f files) remove(_ context.Context, r proto.FileRef) (proto.None, error) {
	name, err := f.inside(r.Path)
	if err != nil {
		return proto.None{}, err
	}
	root, err := os.OpenRoot(f.root)
	if errors.Is(err, fs.ErrNotExist) {
		return proto.None{}, nil
	}
	if err != nil {
		return proto.None{}, err
	}
	defer root.Close()
	return proto.None{}, root.RemoveAll(name)
}

// inside returns the path relative to the root, or an error when it is not below it.
func (f files) inside(p string) (string, error) {
	rest, ok := strings.CutPrefix(path.Clean(p), f.root+"/")
	if !ok {
		return "", fail(proto.CodeInvalid, p, "only files below %s can be reached", f.root)
	}
	return rest, nil
}
