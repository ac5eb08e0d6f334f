// Package machine runs one guest that belongs to no lab: no network, no disk that
// can be written to, no file on the host, no libvirt. It ends with the process that
// started it, however that ends.
package machine
