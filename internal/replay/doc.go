// Package replay feeds the model of IPVS with the packets of a run, in the
// order in which the client's card sent them, and holds what comes of it
// against what the kernel did: the counters of every destination, the backend
// that answered each packet, and the table of connections, row by row. Where
// the model cannot know, because the scheduler draws or because the order of
// the packets is not known, it says so and compares less.
//
// It is pure: the same raw data give the same words, so that a result can be
// held against the model again without its lab.
package replay
