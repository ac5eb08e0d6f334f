// Package load knows what is asked and what came back: the queries of a zone,
// dnsperf's command lines and reports, and the outcome of every single query,
// found in a capture at the client's NIC.
//
// It is pure: bytes and values in, values out. Who runs dnsperf and takes the
// capture is package experiment, with the agent's help; what a number means is
// said elsewhere.
package load
