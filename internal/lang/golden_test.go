package lang_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/topo"
)

// loaded is a topology that went through all steps before the runs.
type loaded struct {
	config     *lang.Config
	skeleton   *lang.Skeleton
	addresses  map[string]netip.Addr
	topology   *lang.Topology
	conclusion lang.Conclusion
}

// load takes a source through all steps; it stops at the first step with errors.
func load(src lang.Source, in lang.Inputs) (loaded, diag.Diagnostics) {
	var l loaded
	var all, ds diag.Diagnostics
	step := func(ds diag.Diagnostics) bool {
		all = append(all, ds...)
		return !ds.HasErrors()
	}
	if l.config, ds = lang.Parse(src); !step(ds) {
		return l, all
	}
	if l.skeleton, ds = l.config.Skeleton(in); !step(ds) {
		return l, all
	}
	if l.addresses, ds = topo.Assign(l.skeleton, nil); !step(ds) {
		return l, all
	}
	if l.topology, ds = l.config.Resolve(l.skeleton, l.addresses); !step(ds) {
		return l, all
	}
	l.conclusion, ds = l.config.Conclude(l.skeleton, l.topology, nil)
	step(ds)
	return l, all
}

func text(name, hcl string) lang.Source {
	return lang.Source{Files: []lang.File{{Name: name, Bytes: []byte(hcl)}}, Name: "test"}
}

// mustLoad loads a topology that has to be right.
func mustLoad(t *testing.T, hcl string) loaded {
	t.Helper()
	l, ds := load(text("test.hcl", hcl), lang.Inputs{})
	if ds.HasErrors() {
		t.Fatalf("unexpected errors:\n%s", plain(ds, text("test.hcl", hcl)))
	}
	return l
}

// plain renders diagnostics with their source line, for golden files.
func plain(ds diag.Diagnostics, src lang.Source) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s: %s\n", d.Severity, d.Summary)
		if s := d.Subject; s != nil {
			fmt.Fprintf(&b, "  %s:%d,%d\n", filepath.Base(s.Filename), s.Start.Line, s.Start.Column)
			if lines := bytes.Split(src.Text(s.Filename), []byte("\n")); s.Start.Line <= len(lines) {
				line := string(lines[s.Start.Line-1])
				end := s.End.Column
				if s.End.Line > s.Start.Line {
					end = len(line) + 1
				}
				trimmed := strings.TrimLeft(line, " \t")
				cut := len(line) - len(trimmed)
				fmt.Fprintf(&b, "    %s\n    %s%s\n", trimmed, strings.Repeat(" ", max(s.Start.Column-1-cut, 0)), strings.Repeat("^", max(end-s.Start.Column, 1)))
			}
		}
		fmt.Fprintf(&b, "  %s\n", d.Detail)
		for _, v := range d.Values {
			fmt.Fprintf(&b, "  with %s = %s\n", v.Name, v.Rendered)
		}
		if d.Remedy != "" {
			fmt.Fprintf(&b, "  > %s\n", d.Remedy)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestErrorTexts pins what users read for every kind of mistake. Each file
// holds many, and all of them must be told at once.
func TestErrorTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".hcl"), func(t *testing.T) {
			src, ds := lang.ReadSource(f)
			if ds.HasErrors() {
				t.Fatal(ds.Err())
			}
			_, ds = load(src, lang.Inputs{})
			if len(ds) == 0 {
				t.Fatal("the file has no mistakes")
			}
			for _, d := range ds {
				if d.Subject == nil || d.Remedy == "" || d.Summary == "" || d.Detail == "" {
					t.Errorf("incomplete message: %s", d)
				}
			}
			golden.File(t, strings.TrimSuffix(f, ".hcl")+".golden", plain(ds, src))
		})
	}
}

// BenchmarkLoad takes the study of the paper through all steps before the runs.
func BenchmarkLoad(b *testing.B) {
	src, ds := lang.ReadSource("../../topologies/lvs-tun-dns.hcl")
	if ds.HasErrors() {
		b.Fatal(ds)
	}
	for b.Loop() {
		if _, ds := load(src, lang.Inputs{}); ds.HasErrors() {
			b.Fatal(ds)
		}
	}
}
