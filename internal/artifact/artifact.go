// Package artifact writes, seals, verifies and reads the evidence of a study:
// results/<lab>/<run>/ with its manifest, tables and raw data.
package artifact
