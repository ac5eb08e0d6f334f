package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// rootTree makes the guest's root from the unpacked packages: what runs, plus
// the files that maintainer scripts would have made.
func rootTree(ctx context.Context, recipe Recipe, root string, k *kernelTree, workDir string) (tree, error) {
	prune, err := newPruner(recipe.Prune)
	if err != nil {
		return nil, err
	}
	t, err := scan(root, prune)
	if err != nil {
		return nil, err
	}
	wanted, err := k.selectModules(append(append([]string{}, recipe.Modules...), recipe.BootModules...))
	if err != nil {
		return nil, err
	}
	names, err := k.loadOrder(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if err := k.installModules(ctx, t, names, workDir); err != nil {
		return nil, err
	}
	if err := t.pruneLibraries(recipe.KeepLibraries); err != nil {
		return nil, err
	}
	t.dropDangling()
	t.addApplets(recipe.Applets)
	if err := t.addRecipeFiles(recipe); err != nil {
		return nil, err
	}
	t.addParents()
	return t, nil
}

// addApplets links busybox commands into usr/bin where no package has brought
// the command to any directory of the PATH.
func (t tree) addApplets(names []string) {
	for _, name := range names {
		if t.has("usr/bin/"+name) || t.has("usr/sbin/"+name) {
			continue
		}
		t["usr/bin/"+name] = entry{mode: fs.ModeSymlink | 0o777, link: "busybox"}
	}
}

func (t tree) has(p string) bool { _, ok := t[p]; return ok }

// addRecipeFiles writes accounts, directories, texts and links.
func (t tree) addRecipeFiles(recipe Recipe) error {
	t["etc/passwd"] = entry{mode: 0o644, data: []byte(passwd(recipe.Users))}
	t["etc/group"] = entry{mode: 0o644, data: []byte(group(recipe.Users))}
	for p, text := range recipe.Files {
		t[p] = entry{mode: 0o644, data: []byte(text)}
	}
	for p, target := range recipe.Links {
		t[p] = entry{mode: fs.ModeSymlink | 0o777, link: target}
	}
	for _, d := range recipe.Dirs {
		uid, err := recipe.uid(d.Owner)
		if err != nil {
			return err
		}
		mode := fs.FileMode(d.Mode & 0o777)
		if d.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		t[d.Path] = entry{mode: fs.ModeDir | mode, uid: uid}
	}
	return nil
}

// passwd writes passwd(5). No account has a password: nothing in the guest
// asks for one.
func passwd(users []User) string {
	var b strings.Builder
	for _, u := range users {
		fmt.Fprintf(&b, "%s:*:%d:%d::%s:%s\n", u.Name, u.ID, u.ID, u.Home, u.Shell)
	}
	return b.String()
}

// group writes group(5): one for each user, and tty, whose number the kernel's
// devpts is told.
func group(users []User) string {
	lines := map[int]string{5: "tty"}
	for _, u := range users {
		lines[u.ID] = u.Name
		if u.Group != "" {
			lines[u.ID] = u.Group
		}
	}
	ids := make([]int, 0, len(lines))
	for id := range lines {
		ids = append(ids, id)
	}
	sort.Ints(ids)
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, "%s:*:%d:\n", lines[id], id)
	}
	return b.String()
}

// writeTar writes the tree as a tar archive: in order of paths, all times the
// same, owners by number only. So the archive depends on nothing but content.
func (t tree) writeTar(w io.Writer, when time.Time) error {
	tw := tar.NewWriter(w)
	for _, p := range t.paths() {
		e := t[p]
		h := &tar.Header{Name: p, Mode: int64(e.mode.Perm()), Uid: e.uid, Gid: e.uid, ModTime: when, Typeflag: tar.TypeReg}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		switch e.mode.Type() {
		case fs.ModeDir:
			h.Typeflag, h.Name = tar.TypeDir, p+"/"
		case fs.ModeSymlink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		var data []byte
		if h.Typeflag == tar.TypeReg {
			var err error
			if data, err = e.content(); err != nil {
				return fmt.Errorf("read /%s: %w", p, err)
			}
			h.Size = int64(len(data))
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("/%s: %w", p, err)
		}
		if _, err := tw.Write(data); err != nil {
			return fmt.Errorf("/%s: %w", p, err)
		}
	}
	return tw.Close()
}

// squash writes the tree as a squashfs, zstd level 3: 0.6 s and 47 MB where the
// default level takes 12.9 s for 40 MB. mksquashfs reads the tar archive, so
// owners need neither root nor files on disk. -all-time, because version 4.5
// gives the root directory the time of day when it reads tar, -root-time or
// not; it also gives it to the calling user, -root-uid or not, hence asRoot.
func squash(ctx context.Context, t tree, epoch int64, out string) error {
	seconds := fmt.Sprint(epoch)
	cmd := command(ctx, "mksquashfs", "-", out, "-tar", "-noappend", "-quiet", "-no-progress", "-no-xattrs",
		"-comp", "zstd", "-Xcompression-level", "3", "-mkfs-time", seconds, "-all-time", seconds, "-root-mode", "755")
	asRoot(cmd)
	// With the variable set mksquashfs refuses -mkfs-time.
	cmd.Env = without(cmd.Env, "SOURCE_DATE_EPOCH")
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdin = r
	written := make(chan error, 1)
	go func() {
		err := t.writeTar(w, time.Unix(epoch, 0))
		w.Close()
		written <- err
	}()
	runErr := run(ctx, cmd, "compress the root")
	r.Close() // a writer still at work gets EPIPE
	writeErr := <-written
	if runErr != nil {
		return namespaceFailure(runErr)
	}
	return writeErr
}

// asRoot lets a program of an ordinary user see itself as root, in a user
// namespace of its own.
func asRoot(cmd *exec.Cmd) {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 && gid == 0 {
		return
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
}

// namespaceFailure explains the errors of clone(2) for a user who may not make
// a user namespace.
func namespaceFailure(err error) error {
	refused := errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS)
	if os.Geteuid() == 0 || !refused {
		return err
	}
	return diag.Fail(err, "This user may not build images", "Run the command with sudo, or allow user namespaces (sysctl user.max_user_namespaces).",
		"an ordinary user needs a user namespace to write files of root into an image")
}

func without(env []string, name string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return out
}
