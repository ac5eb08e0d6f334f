package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func sumsDir(cacheDir string) string { return filepath.Join(cacheDir, "sums") }

// Notes in the folder of sums end so: on the contents of a file, and on the kernel
// that was booted from a disk.
const (
	memoSuffix   = ".json"
	kernelSuffix = ".kernel"
)

// sumMemo is what is known of a file that was read once.
type sumMemo struct{ Path, ID, Sum string }

func readMemo(file string) (sumMemo, error) {
	var m sumMemo
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// rememberedSum returns the SHA-256 of a file's contents. Reading one of a
// gigabyte takes a second or more, so sums are kept as long as size, times and
// place of the file stay.
func rememberedSum(ctx context.Context, path, cacheDir string) (string, error) {
	id, err := fileID(path)
	if err != nil {
		return "", err
	}
	name := sha256.Sum256([]byte(path))
	memo := filepath.Join(sumsDir(cacheDir), hex.EncodeToString(name[:8])+memoSuffix)
	if known, err := readMemo(memo); err == nil && known.Path == path && known.ID == id {
		return known.Sum, nil
	}
	known := sumMemo{Path: path, ID: id}
	if known.Sum, err = sumWithin(ctx, path); err != nil {
		return "", err
	}
	if now, err := fileID(path); err != nil || now != id {
		return "", errors.Join(err, errors.New("it changes while it is read"))
	}
	text, err := json.Marshal(known)
	if err == nil && makeDir(filepath.Dir(memo)) == nil {
		_ = replaceFile(memo, append(text, '\n')) // without it the next command reads the file again
	}
	return known.Sum, nil
}

// fileID changes when a file does.
func fileID(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprintf("%d:%d %d %d.%09d %d.%09d", st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec), nil
}

// sumPiece is how much is read between two looks at the context.
const sumPiece = 8 << 20

func sumWithin(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, err := io.CopyN(h, f, sumPiece)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
