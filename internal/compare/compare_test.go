package compare

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// result seals the sample study after a change.
func result(t *testing.T, change func(*studytest.Study)) *artifact.Artifact {
	t.Helper()
	s, err := studytest.Load()
	must(t, err)
	s.Raw = nil // nothing here reads it
	if change != nil {
		change(s)
	}
	dir, err := s.Seal(t.TempDir())
	must(t, err)
	a, err := artifact.Open(dir)
	must(t, err)
	return a
}

func compared(t *testing.T, change func(*studytest.Study)) Comparison {
	t.Helper()
	c, err := Results(result(t, nil), result(t, change))
	must(t, err)
	return c
}

func TestTheSameTwice(t *testing.T) {
	c := compared(t, nil)
	if len(c.Inputs) != 0 || c.Alike() != 2 || len(c.OnlyA)+len(c.OnlyB)+len(c.Verdicts) != 0 {
		t.Errorf("%+v", c)
	}
	text := c.Text()
	for _, want := range []string{"Inputs: nothing differs.", "2 of 2 treatments in both results are alike", "4 of 4 runs valid", "Time is not compared: the guests ran under emulation (tcg)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	raw, err := json.Marshal(c)
	must(t, err)
	if strings.Contains(string(raw), "null") {
		t.Errorf("a list is null: %s", raw)
	}
}

func TestInputs(t *testing.T) {
	c := compared(t, func(s *studytest.Study) {
		s.Topology = "lab \"sample\" {}\n# changed\n"
		s.Manifest.Versions.GuestKernel = "6.12.117"
		s.Manifest.Accelerator = "kvm"
		s.Manifest.Host = artifact.Host{ID: "0123456789abcdef", CPU: "Model X", Cores: 4}
		s.Manifest.Images = map[string]string{"guest": "sha256:0123456789abcdef0123"}
		s.Manifest.Seeds = map[string]int64{"schedulers": 7}
		s.Manifest.DestinationOrder = map[string][]string{"service.dns": {"backend.ns[1]", "backend.ns[0]"}}
	})
	want := []Change{
		{"guest kernel", "", "6.12.117"}, {"accelerator", "tcg", "kvm"}, {"host", "", "Model X, 4 cores, id 01234567"},
		{"image guest", "", "sha256:0123456789ab"}, {"seed of schedulers", "", "7"}, {"list order of service.dns", "", "backend.ns[1] backend.ns[0]"},
	}
	if len(c.Inputs) != len(want)+1 || c.Inputs[len(want)].Name != "file topology/sample.hcl" {
		t.Fatalf("%+v", c.Inputs)
	}
	if d := cmp.Diff(want, c.Inputs[:len(want)]); d != "" {
		t.Error(d)
	}
	sysctl := func(value string) func(*studytest.Study) {
		return func(s *studytest.Study) {
			s.Manifest.Sysctls = map[string]map[string]string{"director.lb": {"net.ipv4.vs.pmtu_disc": value}}
		}
	}
	c, err := Results(result(t, sysctl("1")), result(t, sysctl("0")))
	must(t, err)
	if d := cmp.Diff([]Change{{"director.lb net.ipv4.vs.pmtu_disc", "1", "0"}}, c.Inputs); d != "" {
		t.Error(d)
	}
}

func TestOutcomes(t *testing.T) {
	c := compared(t, func(s *studytest.Study) {
		for i, r := range s.Runs {
			if r.TreatmentID != "scheduler=rr" {
				continue
			}
			n := 12
			s.Runs[i].Decisions, s.Runs[i].ConnRowsAfter = &n, 0
			s.Runs[i].OutcomeFlags = []string{"duplicate_answers"}
			for k := range s.Rows {
				if s.Rows[k].RunID == r.RunID {
					s.Rows[k].IPVSConnsDelta = 4
				}
			}
		}
		s.Runs[0].Unanswered, s.Runs[0].AnswersOK, s.Runs[0].BatchS = 2, 10, nil // one run only: the ranges still meet
	})
	if c.Alike() != 1 {
		t.Errorf("%d are alike", c.Alike())
	}
	want := []Change{
		{"decisions", "3", "12"}, {"conn_rows_after", "3", "0"},
		{"outcome_flags", "", "duplicate_answers"},
	}
	if d := cmp.Diff(want, c.Treatments[1].Differences); d != "" {
		t.Error(d)
	}
	// Each backend has a third of the decisions in both, however many they are.
	if text := c.Text(); !strings.Contains(text, "schedulers: scheduler=rr (2 and 2 runs)\n  decisions ") || !strings.Contains(text, "3 │ 12") {
		t.Error(text)
	}
	lost := false
	for _, v := range c.Verdicts {
		lost = lost || v == Change{"schedulers: losses", "", "caution"}
	}
	if !lost {
		t.Errorf("the losses are not among %+v", c.Verdicts)
	}
}

func TestInvalidRunsAndOtherTreatments(t *testing.T) {
	c := compared(t, func(s *studytest.Study) {
		for i := range s.Runs {
			if s.Runs[i].TreatmentID == "scheduler=dh" {
				s.Runs[i].TreatmentID = "scheduler=mh"
			} else {
				s.Runs[i].Valid, s.Runs[i].AnswersOK = false, 0
			}
		}
	})
	if d := cmp.Diff([]string{"schedulers: scheduler=dh"}, c.OnlyA); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"schedulers: scheduler=mh"}, c.OnlyB); d != "" {
		t.Error(d)
	}
	if len(c.Treatments) != 1 || c.Treatments[0].RunsB != 0 || len(c.Treatments[0].Differences) != 0 {
		t.Errorf("counts of runs that are not valid were compared: %+v", c.Treatments)
	}
	if text := c.Text(); !strings.Contains(text, "Treatments only in B\n  schedulers: scheduler=mh") {
		t.Error(text)
	}
}

func TestTimeIsRefused(t *testing.T) {
	host := artifact.Host{ID: "a", CPU: "X", Cores: 2}
	base := artifact.Manifest{Accelerator: "kvm", Host: host, Versions: artifact.Versions{HostKernel: "6.1"}}
	for _, c := range []struct {
		name   string
		change func(*artifact.Manifest)
		want   string
	}{
		{"the same", func(*artifact.Manifest) {}, ""},
		{"accelerator", func(m *artifact.Manifest) { m.Accelerator = "tcg" }, "the accelerators differ (kvm, tcg)"},
		{"unknown host", func(m *artifact.Manifest) { m.Host = artifact.Host{} }, "does not say which host"},
		{"other host", func(m *artifact.Manifest) { m.Host.ID = "b" }, "the hosts differ"},
		{"fewer cores", func(m *artifact.Manifest) { m.Host.Cores = 1 }, "the hosts differ"},
		{"other kernel", func(m *artifact.Manifest) { m.Versions.HostKernel = "6.12" }, "the host's kernels differ (6.1, 6.12)"},
	} {
		other := base
		c.change(&other)
		if got := refusal(base, other); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
		if c.want != "" && times(base, other, nil).Rows != nil {
			t.Errorf("%s: times were compared", c.name)
		}
	}
	emulated := base
	emulated.Accelerator = "tcg"
	if got := refusal(emulated, emulated); !strings.Contains(got, "under emulation (tcg)") {
		t.Errorf("emulation: %q", got)
	}
}

func TestTimes(t *testing.T) {
	m := artifact.Manifest{Accelerator: "kvm", Host: artifact.Host{ID: "a"}}
	series := func(id string, from float64) group {
		g := group{experiment: "x", id: id}
		for i := range 8 {
			v := from + 0.001*float64(i)
			g.runs = append(g.runs, run{Run: artifact.Run{BatchS: &v}})
		}
		return g
	}
	got := times(m, m, [][2]group{{series("a", 1), series("a", 1.1)}, {series("b", 1), series("b", 1)}, {series("c", 1), {experiment: "x", id: "c"}}})
	if got.Refused != "" || len(got.Rows) != 2 {
		t.Fatalf("%+v", got)
	}
	// Eight against eight without overlap: 2 of C(16, 8) = 12 870 divisions, and Holm doubles it.
	if a := got.Rows[0]; !a.Differs() || a.P < 0.00031 || a.P > 0.00032 || a.Ratio < 1.09 || a.Ratio > 1.1 {
		t.Errorf("%+v", a)
	}
	if b := got.Rows[1]; b.Differs() || b.P != 1 {
		t.Errorf("%+v", b)
	}
	text := Comparison{Time: got}.Text()
	for _, want := range []string{"+9.97 %", "~ (p = 1.000, n = 8 + 8)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
