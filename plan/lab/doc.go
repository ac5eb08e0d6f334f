// Package lab brings lvslab's labs into Go tests: real virtual machines with
// IPVS, made from a topology, worked on, measured, and taken down with the test.
//
//	func TestDNS(t *testing.T) {
//		l := lab.Start(t, "dns.hcl")
//		out, err := l.Exec(t.Context(), "client.c", "dig", "+short", "@198.18.0.101", "host0.lab.test")
//		…
//		result, err := l.Run(t.Context())
//	}
//
// It is what the commands apply, exec, run and destroy do, and nothing else: the
// same topologies, the same directory .lvslab beside the topology, the same
// artifacts. So lvslab's own commands see the lab of a running test: lvslab exec,
// ssh, capture, logs, doctor. The page is docs/go-tests.md, a whole test with its
// topology in examples/go-test.
//
// # What it needs
//
// Whatever lvslab needs: root, QEMU and libvirtd for the embedded hypervisor (see
// lvslab doctor). Whether a test wants that, it decides itself, before [Start];
// nothing here skips a test. The agent that runs in the guests is in the package
// after `make agent`; else the variable LVSLAB_AGENT names it.
//
// # Processes
//
// The embedded hypervisor is held by processes of the very program that starts it.
// Importing this package makes a program fit for that: when it is started as such
// a process, it becomes one before its main function or TestMain, and so its tests,
// begin. There is nothing to call for it.
//
// # Compatibility
//
// What is exported here stays. The packages below it are internal.
package lab
