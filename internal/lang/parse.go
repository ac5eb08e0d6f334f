package lang

import (
	"fmt"
	"slices"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/diag"
)

// maxLabel bounds a label: labels become file names, host names and, shortened,
// interface names.
const maxLabel = 63

// maxDepth bounds how deep brackets and unary operators may nest. The parser
// and the evaluator recurse; hand-written files stay below 20.
const maxDepth = 200

// block is one block of the file with its grammar checked and its arguments
// not yet evaluated.
type block struct {
	spec   *blockSpec
	label  string
	noun   addr.Noun // zero for blocks that nobody refers to by noun
	in     *Config   // the module that it stands in; nil for nested blocks
	args   map[string]*hclsyntax.Attribute
	nested []*block
	rng    hcl.Range       // the header
	broken bool            // a mistake was reported
	meant  map[string]bool // arguments and blocks that a misspelt one was meant to be
}

// sortedArgs returns the arguments in the order of the source.
func (b *block) sortedArgs() []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(b.args))
	for _, a := range b.args {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].NameRange.Start.Byte < out[j].NameRange.Start.Byte })
	return out
}

// sub returns the nested blocks of that type.
func (b *block) sub(name string) []*block {
	var out []*block
	for _, n := range b.nested {
		if n.spec.name == name {
			out = append(out, n)
		}
	}
	return out
}

// title names the block for messages: service "dns", nic.
func (b *block) title() string {
	if b.label == "" {
		return b.spec.name
	}
	return fmt.Sprintf("%s %q", b.spec.name, b.label)
}

// Config is a parsed topology, or a module of one: its grammar and its
// references are right, its values are not known yet.
type Config struct {
	src       Source
	dir       string      // of its files
	path      addr.Module // "" at the root
	lab       *block
	provider  *block
	variables []*variable
	locals    map[string]*local

	localOrder []*local // declared order
	nouns      []*block // everything that has a noun, declared order
	byNoun     map[addr.Noun]*block
	checks     []*block
	outputs    []*block
	moved      []*block
	moves      []Move // addresses as this module sees them
	info       map[hclsyntax.Expression]*exprInfo

	parent   *Config            // nil at the root
	call     *block             // by which the parent calls this module
	from     *instance          // of the call; nil in a pattern
	calls    []*block           // module blocks, declared order
	children map[string]*Config // patterns of the modules called, by label
	phases   map[string]phase   // in which variables and outputs have a value
}

// Source returns the text that the configuration was parsed from.
func (c *Config) Source() Source { return c.src }

// local is one entry of a locals block.
type local struct {
	name  string
	attr  *hclsyntax.Attribute
	in    *Config
	phase phase // the earliest phase in which it can be evaluated
	state int   // of the phase's computation: 0 open, 1 under way, 2 known
}

// tree is a topology with all its modules.
type tree struct {
	src      Source
	problems problems
	configs  []*Config // the root and the patterns of modules
	bodies   []*hclsyntax.Body
	info     map[hclsyntax.Expression]*exprInfo
	broken   bool // a file does not follow HCL's syntax
}

type parser struct {
	*tree
	c      *Config
	firsts map[string]hcl.Range // first declaration of each name
}

func newConfig(t *tree, dir string, path addr.Module) *Config {
	c := &Config{src: t.src, dir: dir, path: path, locals: map[string]*local{}, byNoun: map[addr.Noun]*block{}, info: t.info,
		children: map[string]*Config{}, phases: map[string]phase{}}
	t.configs = append(t.configs, c)
	return c
}

// Parse reads the grammar of all files, names and references included. When it
// returns errors the configuration is nil; they are all that can be found
// without the values of variables.
func Parse(src Source) (*Config, diag.Diagnostics) {
	t := &tree{src: src, info: map[hclsyntax.Expression]*exprInfo{}}
	c := newConfig(t, src.Root, "")
	p := &parser{tree: t, c: c}
	p.files(src.Files)
	if d := tooOld(t.bodies, src.Version); d != nil {
		return nil, diag.Diagnostics{*d}
	}
	if t.broken { // half a file yields misleading messages
		return nil, t.problems.sorted()
	}
	for _, c := range t.configs {
		p.in(c).variables()
	}
	for _, c := range t.configs {
		p.in(c).references()
		p.in(c).moved()
		if c.parent != nil {
			p.in(c.parent).inputs(c.call, c)
		}
	}
	if t.problems.list.HasErrors() {
		t.problems.add(c.further(Inputs{})...)
		return nil, t.problems.sorted()
	}
	return c, t.problems.sorted()
}

// files reads the grammar of a module's files, and of the modules that they call.
func (p *parser) files(files []File) {
	p.firsts = map[string]hcl.Range{}
	var bodies []*hclsyntax.Body
	for _, f := range files {
		if body := p.syntax(f); body != nil {
			bodies = append(bodies, body)
		}
	}
	if p.c.parent == nil {
		p.bodies = bodies
	}
	for _, body := range bodies {
		p.root(body)
	}
	for _, call := range p.c.calls {
		p.child(call)
	}
}

func (p *parser) syntax(f File) *hclsyntax.Body {
	if len(f.Bytes) > maxFileBytes {
		p.broken = true
		p.problems.add(tooLarge(f.Name, len(f.Bytes)))
		return nil
	}
	if d, bad := tooDeep(f.Bytes, f.Name); bad {
		p.broken = true
		p.problems.add(d)
		return nil
	}
	file, ds := hclsyntax.ParseConfig(f.Bytes, f.Name, hcl.InitialPos)
	if ds.HasErrors() {
		p.broken = true
		p.problems.add(syntaxProblems(ds)...)
		return nil
	}
	return file.Body.(*hclsyntax.Body)
}

// tooDeep looks at the tokens for nesting that would make the parser recurse
// without bound.
func tooDeep(src []byte, name string) (diag.Diagnostic, bool) {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	depth, unary := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl,
			hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			depth++
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			depth--
		}
		switch t.Type {
		case hclsyntax.TokenMinus, hclsyntax.TokenBang, hclsyntax.TokenQuestion, hclsyntax.TokenColon:
			unary++
		case hclsyntax.TokenComma, hclsyntax.TokenNewline:
			unary = 0
		}
		if depth > maxDepth || unary > maxDepth {
			return diag.Errorf("Nested too deeply", "Split the expression: give its parts names in locals.",
				"Brackets, templates and operators nest more than %d deep here.", maxDepth).At(t.Range), true
		}
	}
	return diag.Diagnostic{}, false
}

func syntaxProblems(in hcl.Diagnostics) diag.Diagnostics {
	var out diag.Diagnostics
	open, inline := false, false // what follows from the first mistake is left out
	list := diag.FromHCL(in)
	list.Sort()
	for _, d := range list {
		d.Remedy = "Correct the syntax here. Blocks are written NAME \"LABEL\" { … }, arguments NAME = VALUE, one a line."
		switch d.Summary {
		case "Invalid multi-line string", "Unterminated template string":
			if open {
				continue
			}
			open, d.Remedy = true, "Close the text with a quote in the same line; \\n stands for a line break."
		case "Argument definition required", "Invalid single-argument block definition", "Invalid single-argument block":
			if inline {
				continue
			}
			inline, d.Remedy = true, "Put the inner block on lines of its own: only blocks with one argument fit in one line."
		}
		out = append(out, d)
	}
	return out
}

func (p *parser) root(body *hclsyntax.Body) {
	for _, a := range sortAttributes(body.Attributes) {
		p.problems.add(diag.Errorf("Argument outside a block", "Move it into the block that it belongs to; a value of your own goes into locals { … }.",
			"%s stands at the top of the file, where only blocks are allowed.", a.Name).At(a.NameRange))
	}
	for _, hb := range body.Blocks {
		spec := rootSpec(hb.Type)
		if spec == nil {
			p.unknownRoot(hb)
			continue
		}
		p.place(p.block(hb, spec))
	}
}

func (p *parser) unknownRoot(hb *hclsyntax.Block) {
	if f, ok := foreignBlocks[hb.Type]; ok {
		p.problems.add(diag.Errorf("Block not supported", f[1], "%q: %s.", hb.Type, f[0]).At(hb.TypeRange))
		return
	}
	for _, s := range rootSpecs {
		if _, ok := s.nested(hb.Type); ok {
			p.problems.add(diag.Errorf("Block in the wrong place", fmt.Sprintf("Move it into %s block.", article(s.name)),
				"%s belongs inside %s.", capital(article(hb.Type)), article(s.name)).At(hb.TypeRange))
			return
		}
	}
	p.problems.add(diag.Errorf("Unknown block", suggest(hb.Type, rootNames(), "Known blocks are"),
		"There is no block type %q.", hb.Type).At(hb.TypeRange))
}

// place puts a checked block where it belongs and reports a second one of the same name.
func (p *parser) place(b *block) {
	if b == nil {
		return
	}
	b.in = p.c
	if p.c.parent != nil && (b.spec.name == "lab" || b.spec.name == "provider") {
		p.problems.add(diag.Errorf("Only in the root", "Move it into the topology that calls the module.", "A module has no %s block.", b.spec.name).At(b.rng))
		return
	}
	switch b.spec.name {
	case "locals":
		for _, a := range b.sortedArgs() {
			if p.first("local."+a.Name, a.NameRange) {
				l := &local{name: a.Name, attr: a, in: p.c}
				p.c.locals[a.Name] = l
				p.c.localOrder = append(p.c.localOrder, l)
			}
		}
	case "lab":
		if p.first("lab", b.rng) {
			p.c.lab = b
		}
	case "provider":
		if b.label != "libvirt" && b.label != "" {
			p.problems.add(diag.Errorf("Unknown provider", suggest(b.label, []string{"libvirt"}, "The only provider is"),
				"There is no provider %q.", b.label).At(b.rng))
		}
		if p.first("provider", b.rng) {
			p.c.provider = b
		}
	case "variable":
		if p.c.parent != nil && slices.Contains(reservedInputs, b.label) {
			p.problems.add(diag.Errorf("Reserved name", "Choose another name.", "Every module block has an argument %q, so the variable could never be set.", b.label).At(b.rng))
		}
		if p.first("var."+b.label, b.rng) {
			p.c.variables = append(p.c.variables, &variable{name: b.label, block: b})
		}
	case "check":
		if p.first("check."+b.label, b.rng) {
			p.c.checks = append(p.c.checks, b)
		}
	case "moved":
		p.c.moved = append(p.c.moved, b)
	case "module":
		b.noun = addr.N(addr.ModuleCall, b.label).In(p.c.path)
		if p.first(addr.N(addr.ModuleCall, b.label).String(), b.rng) {
			p.c.calls = append(p.c.calls, b)
		}
	case "output":
		if p.first("output."+b.label, b.rng) {
			p.c.outputs = append(p.c.outputs, b)
		}
	default:
		local := addr.N(addr.Kind(b.spec.name), b.label)
		b.noun = local.In(p.c.path)
		if p.first(local.String(), b.rng) {
			p.c.nouns = append(p.c.nouns, b)
			p.c.byNoun[local] = b
		}
	}
}

// first reports whether this is the first declaration of that name.
func (p *parser) first(name string, r hcl.Range) bool {
	if at, ok := p.firsts[name]; ok {
		p.problems.add(diag.Errorf("Declared twice", "Rename or remove one of the two.",
			"%s is already declared at %s:%d.", name, at.Filename, at.Start.Line).At(r))
		return false
	}
	p.firsts[name] = r
	return true
}

func sortAttributes(m hclsyntax.Attributes) []*hclsyntax.Attribute {
	out := make([]*hclsyntax.Attribute, 0, len(m))
	for _, a := range m {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].NameRange.Start.Byte < out[j].NameRange.Start.Byte })
	return out
}
