package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Finalise seals the result and returns its directory results/<lab>/<run>.
// files are the last files to be added (summaries, report), by path in the
// result; datapackage.json is made here. The manifest's schema version, lab,
// run, file list and, when it is zero, finishing time are filled in. The order
// is: files, manifest.json, manifest.sha256, all synced; rename; latest. A
// second call after success returns the directory again.
func (w *Writer) Finalise(ctx context.Context, m Manifest, files map[string][]byte) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	final := filepath.Join(w.labDir, w.run)
	if w.ended {
		if w.dir == final {
			return final, nil
		}
		return "", ErrEnded
	}
	if m.Partial != "" {
		return "", fmt.Errorf("a result that is partial (%s) cannot be sealed", m.Partial)
	}
	if w.columns == nil {
		return "", errors.New("a result without tables cannot be sealed")
	}
	if err := w.addLast(ctx, files); err != nil {
		return "", err
	}
	if err := w.writeManifest(ctx, m); err != nil {
		return "", err
	}
	if err := w.closeTables(); err != nil {
		return "", explain(err, "closing the tables", w.dir)
	}
	if err := w.dropDraft(); err != nil {
		return "", explain(err, "sealing", w.dir)
	}
	if err := os.Rename(w.dir, final); err != nil {
		return "", explain(err, "renaming the result", w.labDir)
	}
	w.dir, w.ended = final, true
	w.unlock()
	if err := syncDir(w.labDir); err != nil {
		return final, explain(err, "syncing", w.labDir)
	}
	return final, explain(replaceLink(filepath.Join(w.labDir, LatestLink), w.run, w.owner), "pointing latest at the result", w.labDir)
}

// addLast replaces the files that are made at the end, so that a Finalise that
// failed (no space) can be tried again.
func (w *Writer) addLast(ctx context.Context, files map[string][]byte) error {
	all := maps.Clone(files)
	if all == nil {
		all = map[string][]byte{}
	}
	described, err := dataPackage(w.dir, w.lab, w.run, w.factors)
	if err != nil {
		return err
	}
	maps.Copy(all, described)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case name == ManifestFile, name == ManifestSumFile, name == RunsFile, name == BackendsFile:
			return fmt.Errorf("%s is not a file that can be added at the end", name)
		}
		if err := checkRelative(name); err != nil {
			return err
		}
		path := filepath.Join(w.dir, filepath.FromSlash(name))
		err := makeDirs(filepath.Dir(path), w.owner)
		if err == nil {
			err = replaceFiles(filepath.Dir(path), w.owner, newFile{filepath.Base(path), all[name]})
		}
		if err != nil {
			return explain(err, "writing "+name, w.dir)
		}
	}
	return nil
}

func (w *Writer) writeManifest(ctx context.Context, m Manifest) error {
	sums, err := sumTree(ctx, w.dir)
	if err != nil {
		return explain(err, "computing checksums", w.dir)
	}
	m.SchemaVersion, m.Lab, m.Run, m.Files = SchemaVersion, w.lab, w.run, sums
	if m.FinishedAt.IsZero() {
		m.FinishedAt = time.Now().UTC().Truncate(time.Microsecond)
	}
	return explain(storeManifest(w.dir, m, w.owner), "writing "+ManifestFile, w.dir)
}

// storeManifest writes manifest.sha256 and manifest.json. Both are prepared
// before the first is renamed, so that the time in which they disagree is that
// of two renames.
func storeManifest(dir string, m Manifest, owner *Owner) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	line := hex.EncodeToString(sum[:]) + "  " + ManifestFile + "\n" // as sha256sum -c reads it
	return replaceFiles(dir, owner, newFile{ManifestSumFile, []byte(line)}, newFile{ManifestFile, data})
}

// Abandon leaves the result as .partial, with the reason in partial.txt and in
// a manifest that covers what was measured, and returns the directory. It uses
// no context: it is what is done when a context has ended.
func (w *Writer) Abandon(m Manifest, reason string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return w.dir, ErrEnded
	}
	w.ended = true
	m.Partial = reason
	note := fmt.Sprintf("This result is not complete: %s.\nRows in %s: %d. Each of them is whole; raw data without a row belongs to the run that was going on.\n",
		reason, RunsFile, len(w.ids))
	err := errors.Join(
		explain(replaceFiles(w.dir, w.owner, newFile{PartialNoteFile, []byte(note)}), "writing "+PartialNoteFile, w.dir),
		w.closeTables())
	if merr := w.writeManifest(context.Background(), m); merr != nil {
		err = errors.Join(err, merr) // the draft says what is known
	} else {
		err = errors.Join(err, w.dropDraft())
	}
	w.unlock()
	return w.dir, err
}

// dropDraft removes the draft of the manifest, which has been written.
func (w *Writer) dropDraft() error {
	if err := os.Remove(filepath.Join(w.dir, DraftFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (w *Writer) closeTables() error {
	var err error
	for _, f := range []*os.File{w.runs, w.backends} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	w.runs, w.backends = nil, nil
	return err
}

// sumTree returns the SHA-256 of every regular file below dir but the manifest
// and its sum, by path with slashes.
func sumTree(ctx context.Context, dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := eachFile(ctx, dir, func(path, rel string, d fs.DirEntry) (err error) {
		switch rel {
		case ManifestFile, ManifestSumFile, ManifestFile + newSuffix, ManifestSumFile + newSuffix, DraftFile, DraftFile + newSuffix:
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", rel)
		}
		sums[rel], err = sumFile(path)
		return err
	})
	return sums, err
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// eachFile calls visit with every entry below dir that is no directory, by its path
// and by its path from dir with slashes.
func eachFile(ctx context.Context, dir string, visit func(path, rel string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return visit(path, filepath.ToSlash(rel), d)
	})
}
