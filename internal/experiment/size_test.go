package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/load"
)

// What did not fit into a packet is an outcome with a name, and no fault of the run.
func TestJudgeSizes(t *testing.T) {
	top := paperTopology()
	c, err := newFakeLab(t, top).lab().cast(serviceS, top.Experiments[0].Clients)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		matched load.Matched
		flags   []string
		note    string
	}{
		{load.Matched{}, nil, ""},
		{load.Matched{Fragmented: load.Fragmented{Answers: 2, Fragments: 6}}, []string{FlagFragmented}, "0 queries and 2 answers came in 6 fragments, 0 have not come whole"},
		{load.Matched{Fragmented: load.Fragmented{Incomplete: 1}}, []string{FlagFragmented}, "1 have not come whole"},
		{load.Matched{ICMP: []load.ICMPCount{{Type: 3, Code: 4, From: ip("198.18.0.20"), Count: 7}}}, []string{FlagICMPErrors, FlagTooBig}, "too_big: 7 from 198.18.0.20"},
		{load.Matched{ICMP: []load.ICMPCount{{Type: 3, Code: 3, From: ip("198.18.0.20"), Count: 7}}}, []string{FlagICMPErrors}, ""},
	} {
		out := &measured{cast: c, matched: k.matched}
		out.trial.Treatment.Setting = declaredSetting(top, c.service, top.Experiments[0])
		var f findings
		out.judgeTraffic(&f)
		if notes := strings.Join(f.notes, "\n"); !slices.Equal(f.sortedFlags(), k.flags) || !strings.Contains(notes, k.note) || f.invalid {
			t.Errorf("%+v: %q %q", k.matched, f.flags, notes)
		}
	}
}
