package lang

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/diag"
)

// block checks one block against its spec. It returns nil only when the block
// cannot even be named.
func (p *parser) block(hb *hclsyntax.Block, spec *blockSpec) *block {
	b := &block{spec: spec, args: map[string]*hclsyntax.Attribute{}, rng: hb.DefRange()}
	if !p.label(b, hb) {
		return nil
	}
	meant := map[string]bool{}
	b.meant = meant
	for _, a := range sortAttributes(hb.Body.Attributes) {
		if _, ok := spec.arg(a.Name); ok || spec.open {
			b.args[a.Name] = a
			continue
		}
		p.unknownArgument(b, a, meant)
	}
	for _, n := range hb.Body.Blocks {
		if ns, ok := spec.nested(n.Type); ok {
			child := p.block(n, ns.spec)
			if child != nil {
				b.nested = append(b.nested, child)
			}
			b.broken = b.broken || child == nil || child.broken
			continue
		}
		p.unknownNested(b, n, meant)
	}
	p.complete(b, hb, meant)
	return b
}

func (p *parser) label(b *block, hb *hclsyntax.Block) bool {
	spec := b.spec
	switch {
	case spec.label == "" && len(hb.Labels) > 0:
		p.problems.add(diag.Errorf("Label not expected", fmt.Sprintf("Write %s { … }.", spec.name), "%s block has no label.", capital(article(spec.name))).At(hb.LabelRanges[0]))
		b.broken = true
		return true
	case spec.label == "":
		return true
	case len(hb.Labels) == 0:
		p.problems.add(diag.Errorf("Label missing", fmt.Sprintf("Write %s \"NAME\" { … }.", spec.name),
			"%s block needs one label: %s.", capital(article(spec.name)), spec.label).At(hb.TypeRange))
		return false
	case len(hb.Labels) > 1:
		p.problems.add(diag.Errorf("One label too many", fmt.Sprintf("Write %s %q { … }.", spec.name, hb.Labels[0]),
			"%s block has one label only: %s.", capital(article(spec.name)), spec.label).At(hb.LabelRanges[1]))
		b.broken = true
	}
	b.label = hb.Labels[0]
	if why := badLabel(b.label); why != "" {
		p.problems.add(diag.Errorf("Not usable as a label", "Use letters, digits, dash and underscore, a letter first, 63 at most.",
			"%q %s.", b.label, why).At(hb.LabelRanges[0]))
		return false
	}
	return true
}

func isLabelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func badLabel(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > maxLabel:
		return fmt.Sprintf("has %d characters", len(s))
	case !(s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z'):
		return "does not start with a letter from a to z"
	}
	for i := range len(s) {
		if !isLabelByte(s[i]) {
			return "holds a character that names cannot have"
		}
	}
	return ""
}

func (p *parser) unknownArgument(b *block, a *hclsyntax.Attribute, meant map[string]bool) {
	b.broken = true
	if _, ok := b.spec.nested(a.Name); ok {
		meant[a.Name] = true
		p.problems.add(diag.Errorf("A block is expected", fmt.Sprintf("Write %s { … } without the equals sign.", a.Name),
			"%s is a block inside %s, not an argument.", a.Name, b.title()).At(a.NameRange))
		return
	}
	names := b.spec.argNames()
	if s := nearest(a.Name, names); s != "" {
		meant[s] = true
	}
	p.problems.add(diag.Errorf("Unknown argument", suggest(a.Name, names, "It takes"),
		"%s has no argument %q.", b.title(), a.Name).At(a.NameRange))
}

func (p *parser) unknownNested(b *block, n *hclsyntax.Block, meant map[string]bool) {
	b.broken = true
	d := diag.Errorf("Unknown block", suggest(n.Type, b.spec.blockNames(), "It takes"), "%s has no block %q inside.", b.title(), n.Type)
	if s := nearest(n.Type, b.spec.blockNames()); s != "" {
		meant[s] = true
	}
	if _, ok := b.spec.arg(n.Type); ok {
		meant[n.Type] = true
		d = diag.Errorf("An argument is expected", fmt.Sprintf("Write %s = … with an equals sign.", n.Type), "%s is an argument of %s, not a block.", n.Type, b.title())
	}
	if n.Type == "dynamic" {
		d = diag.Errorf("Block not supported", "Write the blocks out; one real_server takes many machines (backends = backend.ns).", "There are no dynamic blocks.")
	}
	if len(b.spec.blocks) == 0 && d.Summary == "Unknown block" {
		d.Remedy = "Remove it; " + b.title() + " has no blocks inside."
	}
	p.problems.add(d.At(n.TypeRange))
}

// complete reports what is missing or there too often.
func (p *parser) complete(b *block, hb *hclsyntax.Block, meant map[string]bool) {
	for _, a := range b.spec.args {
		if _, ok := b.args[a.name]; a.required && !ok && !meant[a.name] {
			b.broken = true
			p.problems.add(diag.Errorf("Argument missing", fmt.Sprintf("Add %s = … to the block.", a.name),
				"%s needs the argument %q.", b.title(), a.name).At(b.rng))
		}
	}
	for _, ns := range b.spec.blocks {
		have := 0
		var second hcl.Range
		for _, n := range hb.Body.Blocks {
			if n.Type == ns.spec.name {
				if have++; have == ns.max+1 {
					second = n.DefRange()
				}
			}
		}
		switch {
		case have < ns.min && !meant[ns.spec.name]:
			b.broken = true
			p.problems.add(diag.Errorf("Block missing", fmt.Sprintf("Add %s { … } to the block.", ns.usage()),
				"%s needs %s block.", b.title(), article(ns.spec.name)).At(b.rng))
		case ns.max > 0 && have > ns.max:
			b.broken = true
			p.problems.add(diag.Errorf("One block too many", "Remove one of the two.",
				"%s may have one %s block only.", b.title(), ns.spec.name).At(second))
		}
	}
	if b.args["count"] != nil && b.args["for_each"] != nil && b.spec.instances {
		b.broken = true
		p.problems.add(diag.Errorf("Both count and for_each", "Keep one of the two.", "%s says twice how many there are.", b.title()).At(b.args["for_each"].NameRange))
	}
	if b.spec == rootSpec("service") && b.args["vip"] != nil && b.args["vips"] != nil {
		b.broken = true
		p.problems.add(diag.Errorf("Both vip and vips", "Put all addresses into vips.", "%s says its address twice.", b.title()).At(b.args["vips"].NameRange))
	}
}

func (n nestedSpec) usage() string {
	switch n.spec {
	case loadSpec:
		return `load "dnsperf" or load "lvslab"`
	}
	return n.spec.name
}

func (s *blockSpec) argNames() []string {
	var out []string
	for _, a := range s.args {
		out = append(out, a.name)
	}
	return out
}

func (s *blockSpec) blockNames() []string {
	var out []string
	for _, n := range s.blocks {
		out = append(out, n.spec.name)
	}
	return out
}

// quoted puts quotes around each name.
func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + strings.ReplaceAll(n, `"`, `\"`) + `"`
	}
	return out
}
