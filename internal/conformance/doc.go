// Package conformance holds the model of IPVS against the kernel that runs: it
// carries out the scripts of package ipvsmodel in a network namespace of its
// own, sends the packets through IPVS there and looks which destination each
// leaves for.
//
// It works inside a guest, as root. A namespace has two veth pairs: frames are
// written into one and arrive as a client's, what IPVS sends leaves by the other
// and is told apart by its Ethernet address, which is one for each destination.
// So tunnel, direct and masquerade are watched in the same way.
package conformance
