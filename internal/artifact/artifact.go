// Package artifact writes, seals, verifies and reads the evidence of a study:
// results/<lab>/<run>/ with its manifest, tables and raw data.
//
// A result is born as results/<lab>/<run>.partial. Inputs, the plan, raw files
// and one row per run are written and synced as they come, so a crash loses at
// most the run in progress. [Writer.Finalise] adds the summaries, puts the
// SHA-256 of every file into manifest.json, renames the directory and points
// results/<lab>/latest at it. A sealed result is never written to again, apart
// from [Close], which records what is known only after the lab is gone. One that
// was interrupted can be continued ([Resume]); blocks that are added to a sealed
// one are a result of their own that names its parent ([OpenStudy]).
package artifact

// SchemaVersion is the version of the layout and of the tables' columns. It
// grows when a column changes its meaning or goes away.
const SchemaVersion = 1

// Names of the files at the top of a result.
const (
	ManifestFile    = "manifest.json"
	ManifestSumFile = "manifest.sha256"
	RunsFile        = "runs.csv"
	BackendsFile    = "backends.csv"
	PlanFile        = "plan.json"
	// PathsFile holds the ways of the proof's queries as the machines saw them.
	PathsFile       = "paths.json"
	DataPackageFile = "datapackage.json"
	SummaryJSONFile = "summary.json"
	SummaryMDFile   = "summary.md"
	ReportFile      = "report.html"
	JUnitFile       = "junit.xml"
	PartialNoteFile = "partial.txt"
	// DraftFile is the manifest of a result that is being written, without
	// checksums: what is left of the conditions when the writer is killed.
	DraftFile   = "manifest-draft.json"
	TopologyDir = "topology"
	RawDir      = "raw"
	// PartsDir holds the manifests of the results that one was merged from.
	PartsDir = "parts"
	// QueriesFile is the name of the table of queries in every raw/<run_id>/.
	QueriesFile = "queries.csv"
	// GeneratorFile is the record of lvslab's own load generator in raw/<run_id>/,
	// GeneratorSummaryFile what it comes to beside the capture.
	GeneratorFile        = "generator.csv"
	GeneratorSummaryFile = "generator.json"
	// ClientsFile is the table of several clients in raw/<run_id>/.
	ClientsFile = "clients.csv"
	// StartsFile says in raw/<run_id>/ how several clients were started.
	StartsFile = "starts.json"
	// LatestLink is the symbolic link in results/<lab>/ to the newest sealed result.
	LatestLink = "latest"
	// PartialSuffix ends the name of a result that is not sealed.
	PartialSuffix = ".partial"
)
