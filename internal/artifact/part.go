package artifact

import "strings"

// Part is a result that another one was merged from.
type Part struct {
	Result string `json:"result"` // name of its directory
	Shard  string `json:"shard"`  // as 1/2
	// Manifest is the SHA-256 of its manifest.json, in hex, which covers every file.
	Manifest string `json:"manifest_sha256"`
	// Host is the machine that it was made on, HostKernel the kernel of that.
	Host       Host   `json:"host,omitzero"`
	HostKernel string `json:"host_kernel,omitempty"`
	// Timings are the part's own; the merged result has none.
	Timings Timings `json:"timings,omitzero"`
}

// HostFactor is the name of the column, in runs.csv of a merged result, that says
// which machine a run was made on: [Host.Label].
const HostFactor = "host"

// PartManifest is where a merged result keeps the manifest of a part: 1-of-2.json
// in [PartsDir].
func PartManifest(shard string) string {
	return PartsDir + "/" + strings.ReplaceAll(shard, "/", "-of-") + ".json"
}

// Sum returns the SHA-256 of the manifest as it was read, in hex, "" when there was
// none.
func (a *Artifact) Sum() string { return a.sum }
