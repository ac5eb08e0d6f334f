package artifact

import (
	"fmt"
	"os"
	"path/filepath"
)

// Closing is what becomes known only after a result was sealed, because the
// lab is taken down last.
type Closing struct {
	DestroyedS *float64 // see Timings; nil when the lab was kept
	Outcome    string   // see Manifest
	ExitCode   int
}

// Close writes the closing into the manifest of a sealed result; every other
// file stays as it is. It may be repeated with the same values, which also
// mends a manifest.sha256 that a crash between the two renames left behind.
func Close(dir string, c Closing, owner *Owner) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return noResult(dir, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return noResult(dir, err)
	}
	m, err := ParseManifest(data)
	if err != nil {
		return fmt.Errorf("result %s: %w", dir, err)
	}
	m.Timings.DestroyedS, m.Outcome, m.ExitCode = c.DestroyedS, c.Outcome, c.ExitCode
	return explain(storeManifest(dir, m, owner), "writing "+ManifestFile, dir)
}
