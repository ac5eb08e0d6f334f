package images

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// seedLabel is the label by which cloud-init's source NoCloud knows its disk
// (cloud-init: doc/rtd/reference/datasources/nocloud.rst).
const seedLabel = "cidata"

// seedFiles are what cloud-init reads there, and the script that it is told to
// run at each boot.
//
//go:embed nocloud
var seedFiles embed.FS

// seedAgent is the agent's name on the seed.
const seedAgent = "lvslab-agent"

// SeedPath is where the seed with an agent, whose SHA-256 is given, lies in a cache.
func SeedPath(agent [sha256.Size]byte, cacheDir string) string {
	return filepath.Join(seedsDir(cacheDir), seedKey(agent)+".iso")
}

func seedsDir(cacheDir string) string { return filepath.Join(cacheDir, "seeds") }

// seedKey is the same for the same files.
func seedKey(agent [sha256.Size]byte) string {
	h := sha256.New()
	h.Write(agent[:])
	list, _ := seedFiles.ReadDir("nocloud") // embedded: it is there
	for _, e := range list {
		text, _ := seedFiles.ReadFile("nocloud/" + e.Name())
		fmt.Fprintf(h, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Seed returns the disk from which cloud-init in a user's own image learns to
// start the agent, made when the cache has none: ISO 9660 with Rock Ridge. It is
// the same for all machines; who they are they hear at first contact.
func Seed(ctx context.Context, agent []byte, cacheDir string) (string, error) {
	path, now := SeedPath(sha256.Sum256(agent), cacheDir), time.Now()
	if CachedSeed(path) {
		return path, nil
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return "", err
	}
	if err := checkSpace(dir, "a seed for cloud-init", uint64(len(agent))+16<<20); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	dropOld(dir, now.Add(-initrdAge))
	work, err := os.MkdirTemp(dir, buildPrefix)
	if err != nil {
		return "", fmt.Errorf("seed for cloud-init: %w", err)
	}
	defer os.RemoveAll(work)
	made := filepath.Join(work, "seed.iso")
	if err := writeSeed(made, agent); err != nil {
		return "", fmt.Errorf("seed for cloud-init: %w", err)
	}
	if err := os.Rename(made, path); err != nil {
		return "", fmt.Errorf("seed for cloud-init: %w", err)
	}
	handOver(path)
	return path, nil
}

// CachedSeed reports whether a seed is there, and keeps it from being dropped
// for its age.
func CachedSeed(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// seedBlock is ISO 9660's usual sector; seedSpare is room for its tables.
const (
	seedBlock = 2048
	seedSpare = 1 << 20
)

func writeSeed(path string, agent []byte) error {
	size := (int64(len(agent))+seedSpare)/seedBlock*seedBlock + seedBlock
	disk, err := file.CreateFromPath(path, size)
	if err != nil {
		return err
	}
	defer disk.Close()
	// Where the files lie until the tables are written.
	work := path + ".files"
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	iso, err := iso9660.Create(disk, size, 0, seedBlock, work)
	if err != nil {
		return err
	}
	list, err := seedFiles.ReadDir("nocloud")
	if err != nil {
		return err
	}
	for _, e := range list {
		text, err := seedFiles.ReadFile("nocloud/" + e.Name())
		if err == nil {
			err = put(iso, e.Name(), text)
		}
		if err != nil {
			return err
		}
	}
	if err := put(iso, seedAgent, agent); err != nil {
		return err
	}
	return iso.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: seedLabel})
}

func put(to filesystem.FileSystem, name string, text []byte) error {
	f, err := to.OpenFile("/"+name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if c, ok := f.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
