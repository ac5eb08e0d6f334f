package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lvslab/lvslab/internal/diag"
)

// Parent is the result that another one adds blocks to.
type Parent struct {
	// Path leads from the directory of the child to that of the parent, with
	// slashes, so that both can be moved together.
	Path string `json:"path"`
	// Manifest is the SHA-256 of the parent's manifest.json, in hex, which covers
	// every file of the parent.
	Manifest string `json:"manifest_sha256"`
}

// Name returns the name of the parent's directory; of no parent it is "".
func (p *Parent) Name() string {
	if p == nil {
		return ""
	}
	return filepath.Base(filepath.FromSlash(p.Path))
}

// ErrParent is the cause when the parent of a result is missing or not what it was.
var ErrParent = errors.New("the parent of the result is not at hand as it was")

// longestChain bounds the parents of a result: more are a circle.
const longestChain = 1000

// ParentOf describes a sealed result as the parent of one beside it.
func ParentOf(a *Artifact) (*Parent, error) {
	sum, err := sumFile(filepath.Join(a.dir, ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("parent %s: %w", a.dir, err)
	}
	return &Parent{Path: "../" + filepath.Base(a.dir), Manifest: sum}, nil
}

// OpenStudy reads a result as [Open] does, with the parents that it adds blocks
// to: rows are those of the whole study. A parent that is missing or was changed
// is a *diag.Failure that is [ErrParent] and names it.
func OpenStudy(dir string) (*Artifact, error) {
	a, err := Open(dir)
	if err != nil || a.manifest.Parent == nil {
		return a, err
	}
	links := []*Artifact{a}
	for link := a; link.manifest.Parent != nil; link = links[0] {
		if len(links) == longestChain {
			return nil, fmt.Errorf("result %s: its parents never end", dir)
		}
		parent, err := openParent(link)
		if err != nil {
			return nil, err
		}
		links = append([]*Artifact{parent}, links...)
	}
	return joined(a, links)
}

func openParent(child *Artifact) (*Artifact, error) {
	p := child.manifest.Parent
	dir := filepath.Join(child.dir, filepath.FromSlash(p.Path))
	lost := func(cause error, format string, args ...any) error {
		return diag.Fail(errors.Join(diag.Told(ErrParent), cause), "The parent of a result is not at hand as it was",
			"Bring it back to "+dir+" as it was sealed. Without it the result has only a part of the study's blocks.",
			"%s adds blocks to %s, %s.", child.dir, dir, fmt.Sprintf(format, args...))
	}
	data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, lost(diag.Told(err), "which cannot be read")
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.Manifest {
		return nil, lost(nil, "whose %s was changed since", ManifestFile)
	}
	parent, err := Open(dir)
	if err != nil {
		return nil, lost(diag.Told(err), "which cannot be read")
	}
	if parent.manifest.Study != child.manifest.Study {
		return nil, lost(nil, "which is of another study")
	}
	return parent, nil
}

// joined is a with the rows of all links, the first one first.
func joined(a *Artifact, links []*Artifact) (*Artifact, error) {
	out := *a
	out.links, out.runs, out.backends, out.owner = links, nil, nil, map[string]*Artifact{}
	for _, l := range links {
		for _, r := range l.runs {
			if other := out.owner[r.RunID]; other != nil {
				return nil, fmt.Errorf("result %s: run %s is in %s, too", l.dir, r.RunID, other.dir)
			}
			out.owner[r.RunID] = l
		}
		out.runs, out.backends = append(out.runs, l.runs...), append(out.backends, l.backends...)
	}
	return &out, nil
}

// Links returns the results that the study consists of, the first one first and
// this one last: with parents each of them alone, else the result itself.
func (a *Artifact) Links() []*Artifact {
	if a.links == nil {
		return []*Artifact{a}
	}
	return a.links
}

// own returns the rows of this result without its parents'.
func (a *Artifact) own() []Run { links := a.Links(); return links[len(links)-1].runs }

func (a *Artifact) ownBackends() []BackendRow {
	links := a.Links()
	return links[len(links)-1].backends
}
