package sighting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
)

// Proof is what one apply saw before its runs, and whose it is.
type Proof struct {
	// Session is when its apply began: started_at of a session of the manifest.
	Session time.Time `json:"session"`
	// Result is the part that it is of in a result that was merged, as with sessions.
	Result string `json:"result,omitempty"`
	// Shard is the share of the blocks that the apply made, as 1/2; "" = all of them.
	Shard string `json:"shard,omitempty"`
	Host  string `json:"host"` // the label of the machine that the lab ran on
	Record
}

// Proofs are those of all sessions of a result, in their order: paths.json.
type Proofs []Proof

// proofsFile is how they are written.
type proofsFile struct {
	Proofs Proofs `json:"proofs"`
}

// ParseProofs reads paths.json.
func ParseProofs(data []byte) (Proofs, error) {
	var f proofsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	return f.Proofs, nil
}

// Encode writes paths.json: the same proofs are the same bytes.
func (p Proofs) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(proofsFile{p}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", artifact.PathsFile, err)
	}
	return append(data, '\n'), nil
}

// ProofsOf reads the proofs of a result, those of its parents before its own. A result
// without the file has none; one that cannot be read is a *diag.Failure.
func ProofsOf(a *artifact.Artifact) (Proofs, error) {
	var out Proofs
	for _, link := range a.Links() {
		data, err := link.ReadFile(artifact.PathsFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var own Proofs
		if err == nil {
			own, err = ParseProofs(data)
		}
		if err != nil {
			return nil, diag.Fail(err, "The paths of a result cannot be read", "Compare its SHA-256 with the one in manifest.json.",
				"%s of %s is not what lvslab writes", artifact.PathsFile, link.Dir())
		}
		out = append(out, own...)
	}
	return out, nil
}

// All are the paths of all proofs.
func (p Proofs) All() Record {
	var out Record
	for _, one := range p {
		out.Add(one.Record)
	}
	return out
}

// Summary is that of all paths, with the number of proofs when there are several.
func (p Proofs) Summary() string {
	text := p.All().Summary()
	if len(p) > 1 && text != "" {
		text = fmt.Sprintf("in %d proofs, ", len(p)) + text
	}
	return text
}
