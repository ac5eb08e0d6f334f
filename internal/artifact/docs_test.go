package artifact

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/artifact.md")

const docsFile = "../../docs/artifact.md"

// The tables of columns in the documentation are those of the code.
func TestDocumentedColumns(t *testing.T) {
	fields := map[string][]dpField{
		RunsFile:     schemaOf(runColumnsWith([]string{"<name>"})).Fields,
		BackendsFile: schemaOf(backendColumns).Fields,
	}
	// queries.csv in the order in which the file has them.
	for _, name := range []string{"n", "time", "client", "port", "vip", "protocol", "id", "name", "type", "next_hop", "outcome",
		"latency_s", "rcode", "source", "backend", "duplicates", "query_ip_bytes", "answer_ip_bytes"} {
		f := queryFields[name]
		f.Name = name
		fields[QueriesFile] = append(fields[QueriesFile], f)
	}
	for _, name := range []string{"n", "client", "port", "vip", "protocol", "id", "name", "type", "scheduled", "started", "sent",
		"result", "latency_s", "rcode", "truncated", "source", "backend", "duplicates"} {
		f := generatorFields[name]
		f.Name = name
		fields[GeneratorFile] = append(fields[GeneratorFile], f)
	}
	for _, name := range []string{"client", "addresses", "started_s", "queries_sent", "answers_ok", "answers_not_ok", "unanswered",
		"batch_s", "resolved_s", "latency_p50_s", "source_ports", "backends"} {
		f := clientFields[name]
		f.Name = name
		fields[ClientsFile] = append(fields[ClientsFile], f)
	}
	b, err := os.ReadFile(docsFile)
	must(t, err)
	text := string(b)
	for name, list := range fields {
		mark := "<!-- columns of " + name + ": made by go test ./internal/artifact -update -->\n"
		before, rest, found := strings.Cut(text, mark)
		have, after, closed := strings.Cut(rest, "<!-- end -->")
		if !found || !closed {
			t.Fatalf("%s has no place for the columns of %s", docsFile, name)
		}
		want := columnTable(list)
		if *update {
			text = before + mark + want + "<!-- end -->" + after
		} else if d := cmp.Diff(want, have); d != "" {
			t.Errorf("columns of %s (rewrite with -update):\n%s", name, d)
		}
	}
	if *update {
		must(t, os.WriteFile(docsFile, []byte(text), 0o644))
	}
}

func columnTable(list []dpField) string {
	var b strings.Builder
	sourced := list[0].Source != ""
	b.WriteString("\n| column | type | unit | meaning |")
	if sourced {
		b.WriteString(" source |")
	}
	b.WriteString("\n| --- | --- | --- | --- |")
	if sourced {
		b.WriteString(" --- |")
	}
	b.WriteString("\n")
	for _, f := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |", f.Name, f.Type, f.Unit, strings.ReplaceAll(f.Description, "<", "&lt;"))
		if sourced {
			fmt.Fprintf(&b, " %s |", f.Source)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.String()
}
