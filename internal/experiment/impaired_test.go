package experiment

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/lang"
)

// impair gives the first card of a machine an impairment.
func impair(t *lang.Topology, n string, i lang.Impair) {
	for k, m := range t.Machines {
		if m.Noun.String() == n {
			t.Machines[k].NICs[0].Impair = &i
		}
	}
}

// A query passes the cards of client and director, its answer that of the backend.
func TestProveDelay(t *testing.T) {
	for _, c := range []struct {
		name   string
		slower time.Duration
		delays map[string]lang.Impair
		want   string
	}{
		{"as asked", 29500 * time.Microsecond, map[string]lang.Impair{"client.c[0]": {Delay: 10 * time.Millisecond}, "director.lb": {Delay: 10 * time.Millisecond}, "backend.ns[1]": {Delay: 10 * time.Millisecond}}, ""},
		{"one card does not wait", 20 * time.Millisecond, map[string]lang.Impair{"client.c[0]": {Delay: 10 * time.Millisecond}, "director.lb": {Delay: 10 * time.Millisecond}, "backend.ns[1]": {Delay: 10 * time.Millisecond}}, "backend.ns[1] answered client.c[0] under 198.18.0.101 after 20.9ms; the cards on the way delay it by 30ms"},
		{"jitter goes both ways", 0, map[string]lang.Impair{"client.c[0]": {Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond}}, ""},
		{"what is reordered does not wait", 0, map[string]lang.Impair{"client.c[0]": {Delay: 10 * time.Millisecond, Reorder: 0.5}}, ""},
	} {
		top := paperTopology()
		for n, i := range c.delays {
			impair(top, n, i)
		}
		f := newFakeLab(t, top)
		f.slower = c.slower
		_, err := Prove(context.Background(), f.lab(), serviceS)
		if got := text(err); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Where packets are to be lost each backend is asked until it answers, and a link on
// which nothing is lost is named.
func TestProveLoss(t *testing.T) {
	for _, c := range []struct {
		name          string
		lost, unlucky int
		want          string
	}{
		{"lost queries and echoes", 7, 5, ""},
		{"nothing is lost", 0, 0, "director.lb shall lose 20% of what it sends to backend.ns[0], and all 62 echoes were answered"},
		{"everything is lost", 7, 10_000, "198.18.0.101"},
	} {
		top := paperTopology()
		impair(top, "director.lb", lang.Impair{Loss: 0.2})
		f := newFakeLab(t, top)
		f.lost, f.unlucky = c.lost, c.unlucky
		proof, err := Prove(context.Background(), f.lab(), serviceS)
		if got := text(err); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.want == "" && (len(proof.Witnesses) != 3 || proof.FirstAnswer.IsZero()) {
			t.Errorf("%s: %+v", c.name, proof)
		}
		if c.want == "" && f.count("director", proto.Ping.Op) == 0 {
			t.Errorf("%s: nobody looked for the loss", c.name)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRepeats(t *testing.T) {
	for p, want := range map[float64]int{1: 1, 0: 2000, 0.5: 20, 0.01: 1375, 0.001: 2000} {
		if got := repeats(p, mostEchoes); got != want {
			t.Errorf("%g: %d, want %d", p, got, want)
		}
	}
}
