// Package acceptance holds no code: its tests run the lvslab that make build
// has made, as a user would, against real virtual machines under emulation,
// and hold what it measures against what is known of the kernel.
package acceptance
