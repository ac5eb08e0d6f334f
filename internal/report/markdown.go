package report

import (
	"fmt"
	"strings"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/verdict"
)

// Markdown returns summary.md.
func (s Summary) Markdown() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", md(s.Lab))
	if s.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", md(s.Description))
	}
	fmt.Fprintf(&b, "Result `%s`, started %s, accelerator %s.\n", s.Result, s.Conditions.StartedAt, orUnknown(s.Conditions.Accelerator))
	if s.Conditions.Partial != "" {
		fmt.Fprintf(&b, "\n**This result is not complete: %s.**\n", md(s.Conditions.Partial))
	}
	for _, e := range s.Experiments {
		e.markdown(&b)
	}
	if len(s.Checks) > 0 {
		b.WriteString("\n## Checks\n\n| check | result | |\n|---|---|---|\n")
		for _, c := range s.Checks {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", md(c.Name), passedText(c.Passed), md(c.Message))
		}
	}
	b.WriteString("\n## Threats to validity\n\n")
	for _, t := range s.threats() {
		fmt.Fprintf(&b, "- %s\n", md(t))
	}
	b.WriteString("\n## How to repeat\n\nIn the directory of this file:\n\n")
	for _, p := range s.repeat() {
		fmt.Fprintf(&b, "- `%s`: %s\n", p.Path, md(p.What))
	}
	s.conditionsMarkdown(&b)
	b.WriteString("\n## Where the evidence lies\n\n")
	for _, f := range files {
		fmt.Fprintf(&b, "- `%s`: %s\n", f.Path, f.What)
	}
	return []byte(b.String())
}

func (e Experiment) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n", md(e.Facts.Experiment), md(counted(e)))
	t := tableOf(e)
	head := make([]string, len(t.Head))
	line := make([]string, len(t.Head))
	for i, h := range t.Head {
		head[i], line[i] = md(h), "---"
		if t.Right[i] {
			line[i] = "---:"
		}
	}
	fmt.Fprintf(b, "| %s |\n|%s|\n", strings.Join(head, " | "), strings.Join(line, "|"))
	for _, r := range t.Rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = md(c)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintf(b, "\nShares are of the accepted answers, smallest to largest over the blocks.%s\n", md(spaced(e.whoWasWhere())))
	for _, v := range e.Verdicts {
		fmt.Fprintf(b, "\n### %s %s\n\n%s\n", marks[v.Level], md(v.Title), md(v.Text))
		if v.Remedy != "" {
			fmt.Fprintf(b, "\n*%s*\n", md(v.Remedy))
		}
		if v.Level != verdict.OK {
			b.WriteString("\n")
			for _, ev := range v.Evidence {
				fmt.Fprintf(b, "- `%s`%s: `%s` = %s\n", ev.File, rowsText(ev), ev.Column, md(ev.Value))
			}
		}
	}
	if rows := expected(e); len(rows) > 0 {
		fmt.Fprintf(b, "\n### Expected and counted\n\nDecisions for %s, over the valid runs.\n\n| treatment | expected | counted | |\n|---|---:|---:|---|\n", md(strings.Join(e.columns(), " : ")))
		for _, r := range rows {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", md(r.Label), r.Planned, r.Counted, map[bool]string{false: "as expected", true: "differs"}[r.Differs])
		}
	}
	b.WriteString("\n### From the client and back\n\n| step | count | |\n|---|---:|---|\n")
	for _, st := range e.Ladder {
		fmt.Fprintf(b, "| %s | %s | %s, `%s` |\n", st.Name, verdict.Count(st.Count), st.Unit, st.From)
	}
}

func rowsText(ev verdict.Evidence) string {
	if ev.Rows == "" {
		return ""
	}
	return " (" + md(ev.Rows) + ")"
}

func (s Summary) conditionsMarkdown(b *strings.Builder) {
	b.WriteString("\n## Methods and versions\n\n| | |\n|---|---|\n")
	for _, p := range s.Conditions.pairs() {
		fmt.Fprintf(b, "| %s | %s |\n", md(p[0]), md(p[1]))
	}
}

// pairs are the conditions as name and value, empty ones left out.
func (c Conditions) pairs() [][2]string {
	v := c.Versions
	list := [][2]string{
		{"accelerator", c.Accelerator}, {"lvslab", v.Lvslab}, {"guest kernel", v.GuestKernel}, {"host kernel", v.HostKernel},
		{"QEMU", v.QEMU}, {"libvirt", v.Libvirt}, {"IPVS", v.IPVS}, {"ipvsadm", v.IPVSAdm}, {"named", v.Named}, {"dnsperf", v.DNSPerf},
		{"study", c.Study}, {"lineage", c.Lineage}, {"adds blocks to", c.Parent}, {"share of the blocks", c.Shard}, {"sessions", c.sessions()}, {"paths of the proof", c.Paths}, {"topology sha256", c.TopologySHA256},
	}
	for _, s := range c.Shares {
		list = append(list, s.pair())
	}
	for _, name := range sortedKeys(v.NameServers) {
		list = append(list, [2]string{"name server of " + name, v.NameServers[name]})
	}
	for _, name := range sortedKeys(c.Images) {
		list = append(list, [2]string{"image " + name, c.Images[name]})
	}
	for _, name := range sortedKeys(c.Seeds) {
		list = append(list, [2]string{"seed of " + name, fmt.Sprint(c.Seeds[name])})
	}
	for _, name := range sortedKeys(c.Isolation) {
		list = append(list, [2]string{"isolation of " + name, c.Isolation[name]})
	}
	for _, name := range sortedKeys(c.Loads) {
		list = append(list, [2]string{"load of " + name, c.Loads[name]})
	}
	for _, name := range sortedKeys(c.Starts) {
		list = append(list, [2]string{"clients of " + name, c.Starts[name].String()})
	}
	for _, name := range sortedKeys(c.DestinationOrder) {
		list = append(list, [2]string{"list order of " + name + ", head first", strings.Join(c.DestinationOrder[name], ", ")})
	}
	for _, name := range sortedKeys(c.Addresses) {
		list = append(list, [2]string{"address of " + name, c.Addresses[name]})
	}
	for _, p := range c.phases() {
		list = append(list, [2]string{p.Name + " after", fmt.Sprintf("%.1f s", p.At)})
	}
	var out [][2]string
	for _, p := range list {
		if p[1] != "" {
			out = append(out, p)
		}
	}
	return out
}

func (c Conditions) sessions() string {
	if c.Sessions == 0 {
		return ""
	}
	return fmt.Sprintf("%d: the study was interrupted and continued", c.Sessions)
}

// phase is one phase of apply and when it was done.
type phase struct {
	Name string
	At   float64
}

func (c Conditions) phases() []phase {
	t := c.Timings
	var out []phase
	for _, p := range []struct {
		name string
		at   *float64
	}{{"created", t.CreatedS}, {"enrolled", t.EnrolledS}, {"configured", t.ConfiguredS}, {"proved", t.ProvedS},
		{"first answer", t.FirstAnswerS}, {"runs done", t.RunsDoneS}, {"destroyed", t.DestroyedS}} {
		if p.at != nil {
			out = append(out, phase{p.name, *p.at})
		}
	}
	return out
}

// files are the places of the evidence, for readers.
var files = []Pointer{
	{artifact.RunsFile, "one row a run"},
	{artifact.BackendsFile, "one row a run and backend"},
	{artifact.RawDir + "/<run_id>/" + artifact.QueriesFile, "one row a query; every number here can be recomputed from it"},
	{artifact.RawDir + "/<run_id>/", "what the load generator said, counters before and after, connection table, capture, kernel log"},
	{artifact.ManifestFile, "conditions, and the SHA-256 of every file"},
	{artifact.DataPackageFile, "every column with type, unit, meaning and source (Frictionless)"},
	{artifact.TopologyDir + "/", "the input as it was read"},
}

// md escapes what Markdown and HTML would take for themselves.
func md(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "*", "\\*", "_", "\\_", "`", "\\`", "\n", " ",
		"[", "\\[", "]", "\\]").Replace(s)
}

func passedText(ok bool) string {
	if ok {
		return "passed"
	}
	return "failed"
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
