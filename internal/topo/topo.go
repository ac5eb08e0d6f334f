// Package topo makes the address plan: IP addresses by role, order and what
// was assigned before; and the names, UUIDs and MACs by lineage. It is pure:
// given the same topology, the same earlier addresses and the same lineage it
// gives the same plan, and it discovers nothing.
//
// The two are kept apart on purpose. Schedulers hash addresses, so that an
// address that changed with the lab's name or its lineage would change results;
// names on the host must differ between two labs of one topology.
package topo
