package conformance

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

// Rules are what kernels have differently.
type Rules struct {
	// Schedulers that the kernel has.
	Schedulers []string
	// Model is the kernel's age as the model knows it.
	Model ipvsmodel.Kernel
	// Long has cases that wait for minutes replayed, too, all at the same time.
	Long bool
}

// patient is for how long a case may wait.
func (r Rules) patient() time.Duration {
	if r.Long {
		return longer
	}
	return longest
}

// askOverhead tells the two formulas of overhead apart (include/net/ip_vs.h,
// ip_vs_dest_conn_overhead). After two connections, one open and one closed, the
// head has 256 or 257 by weight 256, the other 1 by weight 1: equal, which stays
// with the head, or not.
const askOverhead = `service tcp 10.0.0.100:53 wlc
add tcp 10.0.0.100:53 10.0.0.3:53 weight=1
add tcp 10.0.0.100:53 10.0.0.4:53 weight=256
send tcp 10.0.0.1:1000 10.0.0.100:53 flags=syn -> 10.0.0.4:53
send tcp 10.0.0.1:1000 10.0.0.100:53 flags=ack -> 10.0.0.4:53
send tcp 10.0.0.1:1001 10.0.0.100:53 flags=syn -> 10.0.0.3:53
send tcp 10.0.0.1:1001 10.0.0.100:53 flags=fin,ack -> 10.0.0.3:53
send tcp 10.0.0.1:1002 10.0.0.100:53 flags=syn -> 10.0.0.3:53`

// AgeOf asks a kernel, which has wlc, which formula of overhead it has: versions
// do not tell, since distributions carry the change back.
func AgeOf(ctx context.Context, replay Replayer) (ipvsmodel.Kernel, error) {
	wrong, _, err := steady(func() (string, error) {
		r, err := replay(ctx, askOverhead)
		return firstWrong(askOverhead, r), err
	})
	return ipvsmodel.Kernel{Before2026: wrong != ""}, err
}

// fit returns what is replayed of a case on a kernel of these rules, or why
// nothing is. A case that the model fulfils only as another kernel is none for
// this one.
func (r Rules) fit(c Case) (text, why string) {
	s, text := c.Script, c.Text
	if r.Model.Before2026 {
		s.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(s ipvsmodel.Step) bool {
			return s.Verb == "kernel" && s.Args[0] == "before-2026"
		})
		// The line goes, its number stays.
		text = strings.ReplaceAll(text, "\nkernel before-2026\n", "\n\n")
	}
	if why := Unfit(s, r.Schedulers, r.patient()); why != "" {
		return "", why
	}
	if r.Model.Before2026 {
		if wrong, err := s.RunOn(ipvsmodel.New(r.Model, 1)); err != nil || len(wrong) > 0 {
			return "", "rules of another kernel"
		}
	}
	return text, ""
}
