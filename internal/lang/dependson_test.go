package lang_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/addr"
)

// TestDependsOnNamesInstances: whole blocks stand for all their instances, and
// experiments run in an order that follows.
func TestDependsOnNamesInstances(t *testing.T) {
	l := mustLoad(t, lab+`
client "late" {
  depends_on = [client.c, service.dns]
  nic { network = network.lan }
}
experiment "second" {
  service    = service.dns
  clients    = client.late
  depends_on = [experiment.third]
  load "dnsperf" {}
}
experiment "third" {
  service    = service.dns
  clients    = client.c
  load "dnsperf" {}
}
output "x" {
  value      = 1
  depends_on = [experiment.third]
}
`)
	got := fmt.Sprint(l.topology.DependsOn[addr.N(addr.Client, "late")])
	if got != "[client.c[0] client.c[1] service.dns]" {
		t.Errorf("client.late depends on %s", got)
	}
	var order []string
	for _, x := range l.topology.Experiments {
		order = append(order, x.Noun.Label)
	}
	if d := cmp.Diff([]string{"x", "third", "second"}, order); d != "" {
		t.Error(d)
	}
}
