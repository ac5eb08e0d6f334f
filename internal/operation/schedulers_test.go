package operation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

// director answers like a guest whose kernel lacks one module.
type director struct {
	lacks string
	asked *[]string
}

func (d director) Call(_ context.Context, calls []proto.Envelope) ([]proto.Result, error) {
	switch calls[0].Op {
	case proto.Info.Op:
		return []proto.Result{{Value: json.RawMessage(`{"kernel":"6.1.0-57-cloud-amd64"}`)}}, nil
	case proto.IPVSPreflight.Op:
		var n proto.IPVSNeeds
		if err := json.Unmarshal(calls[0].Args, &n); err != nil {
			return nil, err
		}
		*d.asked = append(*d.asked, n.Schedulers...)
		for _, s := range n.Schedulers {
			if "ip_vs_"+s == d.lacks {
				return []proto.Result{{Error: &proto.Error{Code: proto.CodeUnsupported, Op: proto.IPVSPreflight.Op, Subject: d.lacks,
					Message: "no module " + d.lacks}}}, nil
			}
		}
		return []proto.Result{{Value: json.RawMessage(`{}`)}}, nil
	}
	return nil, errors.New("asked for " + calls[0].Op)
}

func TestSchedulersAreAskedForBeforeTheFirstRun(t *testing.T) {
	lb := addr.N(addr.Director, "lb")
	needs := []need{{lb, "experiment.e", "rr"}, {lb, "experiment.e", "twos"}, {lb, "experiment.f", "mh"}}
	var asked []string
	node := func(lacks string) func(addr.Noun) client.Caller {
		return func(addr.Noun) client.Caller { return director{lacks, &asked} }
	}
	if err := schedulersKnown(t.Context(), needs, node("")); err != nil || len(asked) != 3 {
		t.Errorf("%v, asked for %q", err, asked)
	}
	got := diag.From(schedulersKnown(t.Context(), needs, node("ip_vs_twos")))
	if len(got) != 1 || got[0].Address != "director.lb" || got[0].Summary != "The guest kernel lacks ip_vs_twos" ||
		got[0].Detail != "experiment.e wants twos; its kernel, Linux 6.1.0-57-cloud-amd64, says: no module ip_vs_twos" || got[0].Remedy == "" {
		t.Errorf("%+v", got)
	}
}
