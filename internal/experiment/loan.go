package experiment

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// emptyWithin bounds the wait for an empty connection table. The kernel's
// flush runs as soon as the service is gone; what takes time is the RCU grace
// period and, with thousands of entries, the walk over the table.
const emptyWithin = 5 * time.Second

// prepareDeadline bounds one round trip that prepares a run, emulated guests
// on a busy machine included.
const prepareDeadline = 30 * time.Second

// Loan records that an experiment has borrowed a director's services. It is
// journaled before the first run and cleared after [Loan.GiveBack]; whoever
// finds one after a crash gives it back.
type Loan struct {
	Borrower string              `json:"borrower"` // experiment.schedulers
	Director addr.Noun           `json:"director"`
	Services []proto.IPVSService `json:"services"` // as declared: what is given back
	Sysctl   map[string]string   `json:"sysctl"`
}

// Borrow describes the loan that an experiment on the service is going to
// take. It changes nothing.
func Borrow(t *lang.Topology, borrower, service addr.Noun) (Loan, error) {
	svc, ok := t.Service(service)
	if !ok {
		return Loan{}, fmt.Errorf("%s is not in the topology", service)
	}
	return Loan{
		Borrower: borrower.String(), Director: svc.Director,
		Services: declaredServices(t, svc.Director), Sysctl: directorSysctls(t, svc.Director),
	}, nil
}

// GiveBack makes the declared services again. They are made anew on an empty
// table, as for a run, and not edited into shape: an edit would leave the
// entries of the last treatment, which pin the ports of whoever comes next.
func (l Loan) GiveBack(ctx context.Context, lab *Lab) error {
	ctx, cancel := context.WithTimeout(ctx, prepareDeadline)
	defer cancel()
	state, err := do(ctx, lab, l.Director, proto.IPVSFresh, proto.IPVSFreshSpec{
		Services: l.Services, Sysctl: l.Sysctl, EmptyWithinMS: emptyWithin.Milliseconds(),
	})
	var detail string
	if err == nil {
		if detail = strings.Join(differences(l.Services, state.Services), "; "); detail == "" {
			return nil
		}
		detail = ": " + detail
	}
	return diag.Fail(err, "Borrowed settings were not given back",
		"Run lvslab apply again: it compares the director with the topology and repairs it.",
		"%s had borrowed the services of %s%s", l.Borrower, l.Director, detail)
}
