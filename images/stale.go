package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entriesOf lists a directory of the cache; one that is not there is empty.
func entriesOf(dir string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look into the cache: %w", err)
	}
	return entries, nil
}

func changed(e os.DirEntry) time.Time {
	if info, err := e.Info(); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// staleImages are the images that no recipe leads to, and directories of images that
// are not whole; keep are the others.
func staleImages(cacheDir string, o PruneOptions, now time.Time) (out []Stale, keep []Image, err error) {
	list, err := List(cacheDir)
	if err != nil {
		return nil, nil, err
	}
	entries, err := entriesOf(imagesDir(cacheDir))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		s := Stale{Kind: staleImage, Name: e.Name(), Path: filepath.Join(imagesDir(cacheDir), e.Name()), used: changed(e)}
		i := slices.IndexFunc(list, func(img Image) bool { return img.Dir == s.Path })
		switch {
		case strings.HasPrefix(e.Name(), buildPrefix):
			s.Kind, s.Why = staleUnfinished, "its build was interrupted"
		case i < 0:
			s.Why = "it is damaged"
		default:
			if s.used = lastUsed(cacheDir, list[i]); s.used.After(now) {
				s.used = now
			}
			s.Why = whyStale(list[i], list, o.UnusedFor, now.Sub(s.used))
		}
		if s.Why == "" {
			keep = append(keep, list[i])
		} else {
			out = append(out, s)
		}
	}
	return out, keep, nil
}

func whyStale(img Image, all []Image, unusedFor, ago time.Duration) string {
	switch {
	case outdated(img):
		return "this lvslab builds another one"
	case replaced(img, all):
		return "a newer one has replaced it"
	case unusedFor > 0 && ago >= unusedFor:
		return fmt.Sprintf("not used for %s", ago.Round(time.Hour))
	}
	return ""
}

// lastUsed is when a lab was last started from an image, or when it was built: each
// start asks for its initramfs.
func lastUsed(cacheDir string, img Image) time.Time {
	last := img.Created
	if img.Resolved.After(last) {
		last = img.Resolved
	}
	paths, _ := filepath.Glob(filepath.Join(initrdsDir(cacheDir), img.Key+"-*"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// staleInitrds are those that are not of an image that stays and this agent.
func staleInitrds(cacheDir string, o PruneOptions, keep []Image) ([]Stale, error) {
	entries, err := entriesOf(initrdsDir(cacheDir))
	var out []Stale
	for _, e := range entries {
		s := Stale{Kind: staleInitrd, Name: e.Name(), Path: filepath.Join(initrdsDir(cacheDir), e.Name()), used: changed(e)}
		if slices.ContainsFunc(keep, func(img Image) bool { return InitrdPath(img, o.Agent, cacheDir) == s.Path }) {
			continue
		}
		s.Why = "its image goes, or is gone"
		switch {
		case strings.HasPrefix(e.Name(), buildPrefix):
			s.Kind, s.Why = staleUnfinished, "its making was interrupted"
		case slices.ContainsFunc(keep, func(img Image) bool { return strings.HasPrefix(e.Name(), img.Key+"-") }):
			s.Why = "its agent is that of another lvslab"
		}
		out = append(out, s)
	}
	return out, err
}

// staleTemplates are those that were saved with another initramfs than this lvslab
// boots. Unfinished ones may have a machine that runs: see [SweepTemplates].
func staleTemplates(cacheDir string, o PruneOptions, keep []Image) ([]Stale, error) {
	entries, err := entriesOf(templatesDir(cacheDir))
	var out []Stale
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		s := Stale{Kind: staleTemplate, Name: e.Name(), Path: filepath.Join(templatesDir(cacheDir), e.Name()), used: changed(e)}
		t, err := loadTemplate(s.Path)
		i := slices.IndexFunc(keep, func(img Image) bool { return img.Key == t.Image })
		switch {
		case err != nil:
			s.Why = "it is damaged"
		case i < 0:
			s.Why = "its image goes, or is gone"
		case t.Initramfs != filepath.Base(InitrdPath(keep[i], o.Agent, cacheDir)):
			s.Why = "its agent is that of another lvslab"
		default:
			continue
		}
		if err == nil {
			s.used = t.Used
			if dirs, _ := filepath.Glob(filepath.Join(imagesDir(cacheDir), "*-"+t.Image)); len(dirs) == 1 {
				s.of = dirs[0]
			}
		}
		out = append(out, s)
	}
	return out, err
}
