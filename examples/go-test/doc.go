// Package dnslab is an example: a Go test that boots a lab of virtual machines,
// asks the DNS service in it, and measures what its scheduler does. The test is in
// dns_test.go, the lab in dns.hcl.
package dnslab
