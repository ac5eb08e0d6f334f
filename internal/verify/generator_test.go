package verify

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/load"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

const ownRun = "01-01-rr"

// ownStudy is the sample with lvslab's own generator in its first run. change may
// touch the record before it is summed up, after the files as they are then written.
func ownStudy(t *testing.T, change func([]load.Asked) []load.Asked, after func(*studytest.Study)) *studytest.Study {
	t.Helper()
	s := study(t)
	queries, err := load.ReadQueries(bytes.NewReader(s.Raw["raw/"+ownRun+"/queries.csv"]))
	must(t, err)
	var record []load.Asked
	ports := []uint16{}
	for i, q := range queries {
		record = append(record, load.Asked{N: i + 1, Client: q.Client, Port: q.Port, VIP: q.VIP, Protocol: q.Protocol, ID: q.ID, Name: q.Name, Type: q.Type,
			Started: q.Time.Add(-time.Microsecond), Sent: q.Time.Add(-time.Microsecond), Result: load.Answered, Latency: q.Latency, Rcode: q.Rcode, Source: q.Source, Backend: q.Backend})
		if i < 3 {
			ports = append(ports, q.Port)
		}
	}
	if change != nil {
		record = change(record)
	}
	var text bytes.Buffer
	must(t, load.WriteRecord(&text, record))
	sum, err := json.Marshal(load.Judge(record, queries))
	must(t, err)
	delete(s.Raw, "raw/"+ownRun+"/dnsperf.txt")
	s.Raw["raw/"+ownRun+"/generator.csv"], s.Raw["raw/"+ownRun+"/generator.json"] = text.Bytes(), sum
	s.Runs[0].LoadMode, s.Runs[0].DNSPerfCompleted, s.Runs[0].DNSPerfRunS = "lvslab-closed", nil, nil
	var plan map[string]any
	must(t, json.Unmarshal(s.Plan, &plan))
	trial := plan["study"].(map[string]any)["trials"].([]any)[0].(map[string]any)
	set := trial["treatment"].(map[string]any)["setting"].(map[string]any)
	set["load"], set["mode"] = "lvslab", "closed"
	plan["source_ports"] = sourcePorts{"schedulers": {queries[0].Client.String(): ports}}
	s.Plan, err = json.Marshal(plan)
	must(t, err)
	if after != nil {
		after(s)
	}
	return s
}

func TestGeneratorFollows(t *testing.T) {
	r := examine(t, seal(t, ownStudy(t, nil, nil)))
	if !r.OK() {
		t.Fatalf("problems:\n%s", all(r))
	}
	for _, c := range r.Checks {
		if c.Name == "generator" && c.Compared == 12 {
			return
		}
	}
	t.Errorf("the record was not compared: %+v", r.Checks)
}

func TestGeneratorForgeries(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]load.Asked) []load.Asked
		after  func(*studytest.Study)
		want   string
	}{
		"a better summary": {nil, func(s *studytest.Study) {
			f := "raw/" + ownRun + "/generator.json"
			s.Raw[f] = bytes.Replace(s.Raw[f], []byte(`"compared":12`), []byte(`"compared":13`), 1)
		}, "generator: raw/" + ownRun + "/generator.json: says"},
		"another port": {func(l []load.Asked) []load.Asked { l[0].Port++; return l }, nil, "is not the one that was planned"},
		"ports in another order": {nil, func(s *studytest.Study) {
			var plan map[string]any
			_ = json.Unmarshal(s.Plan, &plan)
			for _, list := range plan["source_ports"].(map[string]any)["schedulers"].(map[string]any) {
				p := list.([]any)
				p[0], p[1] = p[1], p[0]
			}
			s.Plan, _ = json.Marshal(plan)
		}, "is not the one that was planned"},
		"a contradiction unsaid": {func(l []load.Asked) []load.Asked { l[4].Rcode = "REFUSED"; return l }, nil, "but counts_contradict is true"},
		"slowness unsaid":        {func(l []load.Asked) []load.Asked { l[4].Result = load.TooLate; return l }, nil, "but not_taken is true"},
		"slowness invented":      {nil, func(s *studytest.Study) { s.Runs[0].OutcomeFlags = []string{"not_taken"} }, "but not_taken is false"},
		"dnsperf's file instead": {nil, func(s *studytest.Study) {
			delete(s.Raw, "raw/"+ownRun+"/generator.csv")
			s.Raw["raw/"+ownRun+"/dnsperf.txt"] = s.Raw["raw/01-02-dh/dnsperf.txt"]
		}, "are not those of the planned load"},
		"an unreadable record": {nil, func(s *studytest.Study) { s.Raw["raw/"+ownRun+"/generator.csv"] = []byte("n\n") }, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := examine(t, seal(t, ownStudy(t, c.change, c.after)))
			if r.OK() || !strings.Contains(all(r), c.want) {
				t.Errorf("want %q in\n%s", c.want, all(r))
			}
		})
	}
}
