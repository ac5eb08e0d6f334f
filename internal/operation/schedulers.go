package operation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/diag"
)

// need is a scheduler that a director must have for an experiment's trials.
type need struct {
	director              addr.Noun
	experiment, scheduler string
}

// needs lists the schedulers of all trials on the directors as they are declared,
// each once per director. What runs on another kernel is left out: the director has
// it only then, and its image was judged before (see [applying.capable]).
func (a *applying) needs() []need {
	var out []need
	for _, e := range a.study.topology.Experiments {
		svc, _ := a.study.topology.Service(e.Service)
		director, _ := a.study.topology.Machine(svc.Director)
		for _, t := range a.list.of(e) {
			if k := t.Treatment.Setting.Kernel; k != "" && k != director.Image.String() {
				continue
			}
			n := need{svc.Director, e.Noun.String(), t.Treatment.Setting.Scheduler}
			known := slices.ContainsFunc(out, func(o need) bool { return o.director == n.director && o.scheduler == n.scheduler })
			if !known {
				out = append(out, n)
			}
		}
	}
	return out
}

// schedulersKnown makes every director load the schedulers of all trials before
// the first run: one that the kernel lacks would end the study in its middle,
// and one that is loaded only then would slow the first run down.
func schedulersKnown(ctx context.Context, needs []need, node func(addr.Noun) client.Caller) error {
	var errs []error
	var done []addr.Noun
	for _, n := range needs {
		if slices.Contains(done, n.director) {
			continue
		}
		done = append(done, n.director)
		var names []string
		for _, o := range needs {
			if o.director == n.director {
				names = append(names, o.scheduler)
			}
		}
		_, err := client.Do(ctx, node(n.director), proto.IPVSPreflight, proto.IPVSNeeds{Schedulers: names})
		var inside *proto.Error
		if errors.As(err, &inside) && inside.Code == proto.CodeUnsupported {
			err = lacking(ctx, n.director, needs, inside, node)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lacking names the modules that a director's kernel does not have, and who
// asked for them.
func lacking(ctx context.Context, director addr.Noun, needs []need, e *proto.Error, node func(addr.Noun) client.Caller) error {
	kernel := "its kernel"
	if info, err := client.Do(ctx, node(director), proto.Info, proto.None{}); err == nil {
		kernel = "its kernel, Linux " + info.Kernel + ","
	}
	var users []string
	for _, n := range needs {
		if n.director == director && strings.Contains(e.Subject+" ", "ip_vs_"+n.scheduler) {
			users = append(users, n.experiment+" wants "+n.scheduler)
		}
	}
	f := diag.Fail(diag.Told(e), "The guest kernel lacks "+e.Subject,
		"Take the scheduler out of the experiment's factors, or use an image whose kernel has it.",
		"%s; %s says: %s", strings.Join(users, ", "), kernel, e.Message)
	f.Diagnostic = f.Diagnostic.For(director.String())
	return f
}
