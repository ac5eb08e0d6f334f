package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
)

// Recorder keeps what a run brought: its rows and the files of raw/<run_id>/.
// It is called once for a finished run and never for an abandoned one.
type Recorder interface {
	Record(run artifact.Run, backends []artifact.BackendRow, raw map[string][]byte) error
}

// Into records into an artifact. The files come first: a row in runs.csv means
// that its raw data is complete.
func Into(w *artifact.Writer) Recorder { return writer{w} }

type writer struct{ w *artifact.Writer }

func (w writer) Record(run artifact.Run, backends []artifact.BackendRow, raw map[string][]byte) error {
	dir, err := w.w.StartRun(run.RunID)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(raw) {
		if err := dir.WriteFile(name, raw[name]); err != nil {
			return err
		}
	}
	return w.w.AddRun(run, backends)
}

// raw makes the files of raw/<run_id>/.
func (out *measured) raw(notes []string) (map[string][]byte, error) {
	files := map[string][]byte{"conns.csv": connsCSV(out.stats.Conns)}
	if err := out.addGenerator(files); err != nil {
		return nil, err
	}
	var queries bytes.Buffer
	if err := load.WriteQueries(&queries, out.matched.Queries); err != nil {
		return nil, fmt.Errorf("queries.csv: %w", err)
	}
	files["queries.csv"] = queries.Bytes()
	if err := out.addReplay(files); err != nil {
		return nil, err
	}
	out.addCaptures(files)
	before := snapshot{Baseline: &out.before.fresh.Baseline, Nodes: byNode(out.before.counters)}
	settled := out.stats
	settled.Conns = nil // they are conns.csv
	after := snapshot{IPVS: &settled, Nodes: byNode(out.after)}
	for name, v := range map[string]any{"counters-before.json": before, "counters-after.json": after, "ipvs.json": out.before.fresh} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = append(data, '\n')
	}
	if len(out.klog) > 0 {
		files["klog.txt"] = klogText(out.klog)
	}
	if len(notes) > 0 {
		files["notes.txt"] = []byte(strings.Join(notes, "\n") + "\n")
	}
	addTries(files, out.tries)
	if err := out.addStart(files); err != nil {
		return nil, err
	}
	return files, addRenewed(files, out.renewed)
}

// addCaptures keeps the captures when the experiment wants them.
func (out *measured) addCaptures(files map[string][]byte) {
	if !out.keepCaptures {
		return
	}
	for n, c := range out.captures {
		name := "capture.pcap"
		if len(out.captures) > 1 {
			name = "capture-" + fileName(n) + ".pcap"
		}
		files[name] = c.Pcap
	}
}

// fileName writes client.c[0] as c-0.
func fileName(n addr.Noun) string {
	return slugText(strings.NewReplacer("[", "-", "]", "", `"`, "").Replace(n.Name() + n.Key.String()))
}

// snapshot is counters-before.json and counters-after.json.
type snapshot struct {
	Baseline *proto.IPVSTotals           `json:"ipvs_totals,omitempty"`
	IPVS     *proto.IPVSStats            `json:"ipvs,omitempty"`
	Nodes    map[string]proto.CounterSet `json:"nodes"`
}

func byNode(m map[addr.Noun]proto.CounterSet) map[string]proto.CounterSet {
	out := make(map[string]proto.CounterSet, len(m))
	for n, c := range m {
		out[n.String()] = c
	}
	return out
}

// addTries keeps each failed attempt at the preconditions.
func addTries(files map[string][]byte, tries []try) {
	for _, t := range tries {
		text := t.At.UTC().Format("2006-01-02T15:04:05.000Z") + "\n" + strings.Join(t.Failed, "\n") + "\n"
		files[fmt.Sprintf("try-%d.txt", t.Number)] = []byte(text)
	}
}

func (out *measured) dnsperfText() []byte {
	var b strings.Builder
	for _, l := range out.loads {
		fmt.Fprintf(&b, "# %s: dnsperf %s\n# exit %d after %.6f s\n%s", l.process.client, strings.Join(l.process.Args, " "),
			l.result.Exit, l.result.Wall.Seconds(), l.result.Stdout)
		if l.result.Stderr != "" {
			fmt.Fprintf(&b, "# stderr\n%s", l.result.Stderr)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func connsCSV(conns []proto.IPVSConn) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{"protocol", "client", "virtual", "dest", "state", "expires_s"})
	for _, c := range conns {
		w.Write([]string{c.Protocol, c.Client.String(), c.Virtual.String(), c.Dest.String(), c.State, strconv.Itoa(c.Expires)})
	}
	w.Flush() // a bytes.Buffer takes everything
	return b.Bytes()
}

func klogText(lines map[addr.Noun][]proto.KernelLine) []byte {
	var b strings.Builder
	nodes := make([]addr.Noun, 0, len(lines))
	for n := range lines {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, addr.Noun.Compare)
	for _, n := range nodes {
		for _, l := range lines[n] {
			fmt.Fprintf(&b, "%s <%d> [%d.%06d] %s\n", n, l.Level, l.USec/1e6, l.USec%1e6, l.Text)
		}
	}
	return []byte(b.String())
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
