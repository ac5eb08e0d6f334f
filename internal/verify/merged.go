package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/sighting"
)

// checkMerged holds a merged result against the manifests of its parts: that no block
// is there twice or missing, that each run is of the part that has its block and its
// machine, and that the raw data are the bytes which that part was sealed with.
func checkMerged(a *artifact.Artifact) Check {
	c := Check{Name: "parts", What: "runs and raw data against the manifests of the results that were merged", Unit: "files"}
	blocks(&c, a.Runs(), true)
	m := a.Manifest()
	parts := map[artifact.Share]artifact.Manifest{}
	for _, p := range m.Parts {
		name := artifact.PartManifest(p.Shard)
		share, err := artifact.ParseShare(p.Shard)
		if err != nil || share.N != len(m.Parts) {
			c.fail(artifact.ManifestFile, "", "a part is share %q of %d", p.Shard, len(m.Parts))
			continue
		}
		data, err := a.ReadFile(name)
		if err != nil {
			c.fail(name, "", "cannot be read: %v", err)
			continue
		}
		c.Compared++
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.Manifest {
			c.fail(name, "", "is not the manifest that was merged")
			continue
		}
		part, err := artifact.ParseManifest(data)
		if err != nil {
			c.fail(name, "", "%v", err)
			continue
		}
		if part.Study != m.Study || part.Shard != p.Shard || part.Host != p.Host {
			c.fail(name, "", "is of another study, share or machine than %s says", artifact.ManifestFile)
		}
		parts[share] = part
	}
	proofsOfParts(&c, a, parts)
	for _, r := range a.Runs() {
		part, known := partOf(parts, r.Block)
		if !known {
			continue // said above
		}
		if got, want := r.Factors[artifact.HostFactor], part.Host.Label(); got != want {
			c.fail(artifact.RunsFile, r.RunID, "factor_host is %s, its part was made on %s", got, want)
		}
		compareRaw(&c, m.Files, part.Files, artifact.RawDir+"/"+r.RunID+"/")
	}
	return c
}

// proofsOfParts compares the proofs with the files that the parts were sealed with.
func proofsOfParts(c *Check, a *artifact.Artifact, parts map[artifact.Share]artifact.Manifest) {
	proofs, err := sighting.ProofsOf(a)
	if err != nil {
		return // said of the paths
	}
	of := map[string]sighting.Proofs{}
	for _, p := range proofs {
		part := p.Result
		p.Result = ""
		of[part] = append(of[part], p)
	}
	for _, m := range parts {
		want, there := m.Files[artifact.PathsFile]
		if !there && len(of[m.Run]) == 0 {
			continue
		}
		c.Compared++
		data, err := of[m.Run].Encode()
		if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != want {
			c.fail(artifact.PathsFile, m.Run, "is not what the part was sealed with")
		}
	}
}

// partOf returns the part whose share has a block.
func partOf(parts map[artifact.Share]artifact.Manifest, block int) (artifact.Manifest, bool) {
	for share, m := range parts {
		if share.Has(block) {
			return m, true
		}
	}
	return artifact.Manifest{}, false
}

// compareRaw compares the checksums of a run's raw data with those of the part.
func compareRaw(c *Check, have, want map[string]string, below string) {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if strings.HasPrefix(path, below) {
			c.Compared++
			if have[path] != want[path] {
				c.fail(path, "", "is not what the part was sealed with")
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(have)) {
		if _, known := want[path]; strings.HasPrefix(path, below) && !known {
			c.fail(path, "", "was not in the part")
		}
	}
}
