//go:build !race

package state

const raced = false
