package ipvsmodel

import "embed"

// Cases are the conformance cases, testdata/*.txtar: the comment of an archive
// begins every case of it.
//
//go:embed testdata/*.txtar
var Cases embed.FS
