package operation

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/conformance"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// reportsSeen keeps what the user is shown at the end.
type reportsSeen struct {
	mu  sync.Mutex
	got []ReportEvent
}

func (r *reportsSeen) Emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := e.(ReportEvent); ok {
		r.got = append(r.got, e)
	}
}

// bad are cases that no kernel agrees with: a replayer that finds everything
// right would prove nothing.
var bad = map[string]string{
	"bad choice":  "service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.3:53\nsend udp 10.0.0.1:1 10.0.0.100:53 -> no-destination",
	"bad backend": "service udp 10.0.0.100:53 rr\nsend udp 10.0.0.1:1 10.0.0.100:53 -> 10.0.0.3:53",
	"bad rows":    "service udp 10.0.0.100:53 rr\nadd udp 10.0.0.100:53 10.0.0.3:53\nsend udp 10.0.0.1:1 10.0.0.100:53\nrows 2",
}

// TestAccConformance replays the cases, bad ones and random ones on the guests'
// kernel, as the command does.
func TestAccConformance(t *testing.T) {
	vmtest.Need(t)
	cases, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range bad {
		s, err := ipvsmodel.ParseScript(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, conformance.Case{Name: name, Text: text, Script: s})
	}
	seen := &reportsSeen{}
	s := &Settings{Events: seen, Started: time.Now(), Environ: os.Environ()}
	exit, err := s.conformance(t.Context(), []images.Recipe{images.Debian12}, cases, ConformanceOptions{Fuzz: 100, Seed: 1})
	if err != nil || exit != ExitCheckFailed || len(seen.got) != 1 {
		t.Fatalf("exit %d, %v, %d reports; want 3 for the bad cases", exit, err, len(seen.got))
	}
	text := seen.got[0].Text
	t.Log("\n" + text)
	var r conformanceReport
	if err := json.Unmarshal(seen.got[0].Data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Replayed < len(cases)/2 || r.Random == nil || r.Random.Cases != 100 || r.Random.Differ > 0 {
		t.Errorf("%d of %d replayed; random: %+v", r.Replayed, len(cases), r.Random)
	}
	for _, o := range r.Cases {
		_, wrong := bad[o.Case]
		if (o.Result == conformance.Differs) != wrong {
			t.Errorf("%s: %s %s", o.Case, o.Result, o.Why)
		}
		if wrong && !strings.Contains(text, "DIFFERS: "+o.Case+"\n") {
			t.Errorf("%s is not shown", o.Case)
		}
	}
	for _, name := range conformance.Schedulers {
		if !slices.Contains(r.Schedulers, name) {
			t.Errorf("the kernel has no %s", name)
		}
	}
}

// TestAccLongConformance replays the cases on two kernels, those that wait for
// minutes and, on the kernel that has it, those of twos included: 12 minutes. A
// machine each, side by side, since all that takes time is waiting.
func TestAccLongConformance(t *testing.T) {
	vmtest.NeedLong(t)
	cases, err := conformance.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel := range []string{images.DefaultKernel, "linux-image-6.12-cloud-amd64"} {
		t.Run(kernel, func(t *testing.T) {
			t.Parallel()
			recipe, err := images.ForKernel(kernel)
			if err != nil {
				t.Fatal(err)
			}
			s := &Settings{Events: &reportsSeen{}, Started: time.Now(), Environ: os.Environ()}
			r, err := s.conformanceOn(t.Context(), recipe, cases, ConformanceOptions{Long: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + conformanceReports{r}.text(ConformanceOptions{}))
			twos := slices.Contains(r.Schedulers, "twos")
			if twos != strings.Contains(kernel, "6.12") {
				t.Errorf("twos: %v", twos)
			}
			lacking := 0 // cases of a scheduler that the kernel does not have
			for _, o := range r.Cases {
				if o.Why == "kernel has no twos" {
					lacking++
				}
				if o.Result == conformance.Differs || twos && strings.Contains(o.Why, "twos") {
					t.Errorf("%s: %s %s", o.Case, o.Result, o.Why)
				}
			}
			// Nine need a quarter of an hour and more, a kernel of other rules, or what a
			// replay cannot do; what they say is in the list above.
			if without := len(cases) - r.Replayed - lacking; without > 9 {
				t.Errorf("%d of %d replayed, %d of the others for a scheduler that is not there", r.Replayed, len(cases), lacking)
			}
		})
	}
}
