package merge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/report"
	"github.com/lvslab/lvslab/internal/sighting"
	"github.com/lvslab/lvslab/internal/verify"
	"github.com/lvslab/lvslab/internal/verify/studytest"
)

// shares are the sample study's two blocks, each in a result of its own.
func shares(t *testing.T, change ...func(first, second *studytest.Study)) []*artifact.Artifact {
	t.Helper()
	s, err := studytest.Load()
	if err != nil {
		t.Fatal(err)
	}
	list := s.Shares(2)
	for _, c := range change {
		c(list[0], list[1])
	}
	var out []*artifact.Artifact
	for _, one := range list {
		out = append(out, sealed(t, one))
	}
	return out
}

// memory is a directory on which syncing takes no time, where there is one.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lvslab-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func sealed(t *testing.T, s *studytest.Study) *artifact.Artifact {
	t.Helper()
	dir, err := s.Seal(memory(t))
	if err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func open(t *testing.T, dir string) *artifact.Artifact {
	t.Helper()
	a, err := artifact.OpenStudy(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// proved gives each share a proof of one path.
func proved(t *testing.T) func(first, second *studytest.Study) {
	return func(first, second *studytest.Study) {
		for _, s := range []*studytest.Study{first, second} {
			p := sighting.Proof{Shard: s.Manifest.Shard, Host: s.Manifest.Host.Label(), Record: sighting.Record{Paths: []sighting.Path{{Client: "client.c"}}}}
			var err error
			if s.Paths, err = (sighting.Proofs{p}).Encode(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// written seals the whole as the corridor does, and returns its directory.
func written(t *testing.T, w *Whole) string {
	t.Helper()
	ctx := context.Background()
	out, err := artifact.Create(memory(t), w.Manifest.Lab, "20000109T000000Z-0000", nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := report.FromArtifact(w.First())
	if err != nil {
		t.Fatal(err)
	}
	in.Manifest, in.Runs, in.Backends, in.Paths, in.Facts[0].Blocks = w.Manifest, w.Runs, w.Backends, w.Proofs, 2
	in.Manifest.Run = "20000109T000000Z-0000"
	_, files, err := report.Files(in)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := w.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range parts {
		files[name] = data
	}
	if err := w.Write(ctx, out); err != nil {
		t.Fatal(err)
	}
	dir, err := out.Finalise(ctx, w.Manifest, files)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func problems(t *testing.T, dir string) string {
	t.Helper()
	r, err := verify.Result(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range r.Checks {
		for _, p := range c.Problems {
			out = append(out, c.Name+": "+p.String())
		}
	}
	return strings.Join(out, "\n")
}

// Two shares merged are the study that was made in one go: every row, every raw file
// and every verdict, whatever the order in which they are named.
func TestSharesAreTheWhole(t *testing.T) {
	s, err := studytest.Load()
	if err != nil {
		t.Fatal(err)
	}
	want := sealed(t, s)
	parts := shares(t, proved(t))
	slices.Reverse(parts)
	w, err := Join(t.Context(), parts)
	if err != nil {
		t.Fatal(err)
	}
	dir := written(t, w)
	if p := problems(t, dir); p != "" {
		t.Errorf("verify finds:\n%s", p)
	}
	got := open(t, dir)
	if !slices.Equal(got.Factors(), []string{"scheduler", artifact.HostFactor}) {
		t.Errorf("factors %q", got.Factors())
	}
	for i, r := range got.Runs() {
		if host := strings.Repeat(fmt.Sprint(r.Block), 8); r.Factors[artifact.HostFactor] != host {
			t.Errorf("run %s was made on %s, got %s", r.RunID, host, r.Factors[artifact.HostFactor])
		}
		delete(r.Factors, artifact.HostFactor)
		if a, b := fmt.Sprintf("%+v", shown(r)), fmt.Sprintf("%+v", shown(want.Runs()[i])); a != b {
			t.Errorf("got  %s\nwant %s", a, b)
		}
	}
	if a, b := fmt.Sprintf("%+v", len(got.Backends())), fmt.Sprintf("%+v", len(want.Backends())); a != b {
		t.Errorf("rows of backends.csv: %s, want %s", a, b)
	}
	read := func(a *artifact.Artifact, name string) []byte {
		data, err := a.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(read(got, artifact.BackendsFile), read(want, artifact.BackendsFile)) {
		t.Error("backends.csv is another")
	}
	raw := 0
	for name, sum := range want.Manifest().Files {
		if strings.HasPrefix(name, artifact.RawDir+"/") {
			raw++
			if got.Manifest().Files[name] != sum {
				t.Errorf("%s is another", name)
			}
		}
	}
	if raw == 0 {
		t.Error("no raw data was compared")
	}
	proofs, err := sighting.ProofsOf(got)
	if err != nil || len(proofs) != 2 || proofs[0].Shard != "1/2" || proofs[0].Result != "20000103T000000Z-0000" || proofs[0].Host != "11111111" ||
		proofs[1].Shard != "2/2" || proofs[1].Result != "20000104T000000Z-0000" || proofs[1].Host != "22222222" || len(proofs.All().Paths) != 2 {
		t.Errorf("proofs %+v, %v", proofs, err)
	}
	m := got.Manifest()
	if len(m.Parts) != 2 || m.Parts[0].Shard != "1/2" || m.Parts[0].Manifest != parts[1].Sum() || m.Host != (artifact.Host{}) || m.Lineage != "" || m.Shard != "" || len(m.Sessions) != 2 {
		t.Errorf("manifest: %+v, host %v, lineage %q, shard %q, sessions %d", m.Parts, m.Host, m.Lineage, m.Shard, len(m.Sessions))
	}
	verdicts := func(a *artifact.Artifact) string {
		in, err := report.FromArtifact(a)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(report.Build(in).Experiments, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if verdicts(got) != verdicts(want) {
		t.Errorf("the report says\n%s\nand of one result\n%s", verdicts(got), verdicts(want))
	}
	if text := string(read(got, artifact.SummaryMDFile)); !strings.Contains(text, "| share 1/2 | 20000103T000000Z-0000 on test, 2 cores, id 11111111: 2 runs, 2 valid, batch\\_s ") {
		t.Errorf("the machines are not in the report:\n%s", text)
	}
}

// shown is a run with what its pointers point to.
func shown(r artifact.Run) string {
	r.StartedAt = time.Time{}
	var b strings.Builder
	for _, p := range []*float64{r.BatchS, r.ResolvedS, r.QPS, r.LatencyP50, r.MbpsClientL2Both, r.JainWeighted} {
		if p != nil {
			fmt.Fprint(&b, *p, " ")
		}
	}
	return b.String() + fmt.Sprint(r.RunID, r.Experiment, r.TreatmentID, r.Block, r.Order, r.PrevTreatment, r.Factors, r.AnswersOK, r.OutcomeFlags, r.Valid)
}

// What is not one study is refused, and the message names what differs.
func TestRefused(t *testing.T) {
	second := func(change func(*studytest.Study)) func(*studytest.Study, *studytest.Study) {
		return func(_, s *studytest.Study) { change(s) }
	}
	both := func(change func(*studytest.Study)) func(*studytest.Study, *studytest.Study) {
		return func(a, b *studytest.Study) { change(a); change(b) }
	}
	for _, c := range []struct {
		name   string
		change func(first, second *studytest.Study)
		want   string
	}{
		{"topology", second(func(s *studytest.Study) { s.Manifest.Topology = "other" }), "differ in their topology: none and other"},
		{"study", second(func(s *studytest.Study) { s.Manifest.Study = "other" }), "differ in their study"},
		{"accelerator", second(func(s *studytest.Study) { s.Manifest.Accelerator = "kvm" }), "differ in their accelerator: tcg and kvm"},
		{"image", second(func(s *studytest.Study) { s.Manifest.Images = map[string]string{"default": "1"} }), "differ in their guest images"},
		{"seed", second(func(s *studytest.Study) { s.Manifest.Seeds = map[string]int64{"schedulers": 2} }), "differ in their seeds"},
		{"lvslab", second(func(s *studytest.Study) { s.Manifest.Versions.Lvslab = "9" }), "differ in their version of lvslab"},
		{"kernel", second(func(s *studytest.Study) { s.Manifest.Versions.GuestKernel = "6.12" }), "differ in their guests' kernel: none and 6.12"},
		{"order of backends", second(func(s *studytest.Study) { s.Manifest.DestinationOrder = map[string][]string{"s": {"b"}} }), "differ in their order of the backends"},
		{"parameters", second(func(s *studytest.Study) { s.Manifest.Sysctls = map[string]map[string]string{"d": {"a": "1"}} }), "differ in their kernel parameters"},
		{"addresses", second(func(s *studytest.Study) { s.Manifest.Addresses = map[string]string{"d": "198.18.0.1"} }), "differ in their addresses"},
		{"plan", second(func(s *studytest.Study) {
			s.Plan = bytes.Replace(s.Plan, []byte(`"order": 4`), []byte(`"order": 5`), 1)
		}), "the plan of the runs of"},
		{"block missing", second(func(s *studytest.Study) { s.Runs = s.Runs[:1]; s.Rows = s.Rows[:3] }), "of block 2, experiment schedulers"},
		{"block in the wrong share", func(a, b *studytest.Study) {
			b.Runs = append(slices.Clone(b.Runs), a.Runs...)
			b.Rows = append(slices.Clone(b.Rows), a.Rows...)
		}, "is share 2/2, and has run 01-01-rr of block 1"},
		{"share twice", second(func(s *studytest.Study) { s.Manifest.Shard = "1/2" }), "are both share 1/2"},
		{"share missing", both(func(s *studytest.Study) {
			s.Manifest.Shard = strings.Replace(s.Manifest.Shard, "/2", "/4", 1)
		}), "there is no result of share 3/4, 4/4"},
		{"two ways", second(func(s *studytest.Study) { s.Manifest.Shard = "2/3" }), "is share 2/3"},
		{"no share", second(func(s *studytest.Study) { s.Manifest.Shard = "" }), "holds all blocks of its study"},
		{"a share that is none", second(func(s *studytest.Study) { s.Manifest.Shard = "2/1" }), `got "2/1"`},
		{"merged already", second(func(s *studytest.Study) { s.Manifest.Parts = []artifact.Part{{}} }), "was merged from 1 results"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, shares(t, c.change), c.want) })
	}
	t.Run("named twice", func(t *testing.T) {
		parts := shares(t)
		refused(t, append(parts, open(t, parts[0].Dir())), "A result is named twice")
	})
	t.Run("changed", func(t *testing.T) {
		parts := shares(t)
		name := filepath.Join(parts[1].Dir(), artifact.RunsFile)
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		refused(t, parts, "runs.csv: changed")
	})
}

func refused(t *testing.T, parts []*artifact.Artifact, want string) {
	t.Helper()
	w, err := Join(t.Context(), parts)
	if err == nil {
		t.Fatalf("%d runs were merged", len(w.Runs))
	}
	text := err.Error()
	for _, d := range diag.From(err) {
		text += "\n" + d.Summary + "\n" + d.Detail
		if d.Remedy == "" && errors.Is(err, ErrUnfit) {
			t.Error("no remedy")
		}
	}
	if !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
	if _, ok := errors.AsType[*diag.Failure](err); ok && !errors.Is(err, ErrUnfit) {
		t.Errorf("not ErrUnfit: %v", err)
	}
}

// A merged result that was tampered with is found out, also when its own checksums
// were made anew: the parts' manifests have their own.
func TestMergedIsVerified(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Whole)
		want   string
	}{
		{"machine", func(w *Whole) { w.Runs[0].Factors[artifact.HostFactor] = "22222222" }, "parts: runs.csv, 01-01-rr: factor_host is 22222222, its part was made on 11111111"},
		{"part", func(w *Whole) { w.Manifest.Parts[1].Manifest = strings.Repeat("0", 64) }, "parts: parts/2-of-2.json: is not the manifest that was merged"},
		{"machine of a part", func(w *Whole) { w.Manifest.Parts[1].Host.Cores = 9 }, "parts: parts/2-of-2.json: is of another study, share or machine"},
		{"raw data", func(w *Whole) { w.owner["01-01-rr"] = fake(t, w.owner["01-01-rr"]) }, "parts: raw/01-01-rr/queries.csv: is not what the part was sealed with"},
		{"path", func(w *Whole) { w.Proofs[1].Paths = nil }, "parts: paths.json, 20000104T000000Z-0000: is not what the part was sealed with"},
		{"proof", func(w *Whole) { w.Proofs = w.Proofs[:1] }, "the session made 2 runs, and has no proof"},
		{"all proofs", func(w *Whole) { w.Proofs = nil }, "parts: paths.json, 20000103T000000Z-0000: is not what the part was sealed with"},
		{"block", func(w *Whole) { w.Runs = w.Runs[:3]; w.Backends = w.Backends[:9] }, "block 2 has no run of"},
	} {
		w, err := Join(t.Context(), shares(t, proved(t)))
		if err != nil {
			t.Fatal(err)
		}
		c.change(w)
		if got := problems(t, written(t, w)); !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q in\n%s", c.name, c.want, got)
		}
	}
}

// fake is a copy of a result with another table of queries.
func fake(t *testing.T, a *artifact.Artifact) *artifact.Artifact {
	t.Helper()
	dir := filepath.Join(memory(t), "20000103T000000Z-0000")
	if err := os.CopyFS(dir, os.DirFS(a.Dir())); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, artifact.RawDir, "01-01-rr", artifact.QueriesFile), []byte("n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}
