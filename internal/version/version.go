// Package version holds the version that the linker writes into the binaries.
package version

// Version is set with -ldflags -X by the Makefile; "dev" in test binaries.
var Version = "dev"
