package libvirt

import (
	"os"
	"testing"

	"github.com/lvslab/lvslab/internal/hypervisor"
)

func TestMain(m *testing.M) {
	hypervisor.Main() // the acceptance tests start one from this binary
	os.Exit(m.Run())
}
