package lang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/lvslab/lvslab/internal/diag"
)

// variable is one variable block.
type variable struct {
	name     string
	block    *block
	typ      cty.Type
	defaults *typeexpr.Defaults
	def      cty.Value // NilVal when there is none
	secret   bool
	nullable bool
	bad      bool // its declaration was reported
}

// EnvPrefix starts the names of environment variables that set variables.
const EnvPrefix = "LVSLAB_VAR_"

// VarFlag is one -var NAME=VALUE of the command line.
type VarFlag struct{ Name, Value string }

// ParseVarFlag splits the argument of -var.
func ParseVarFlag(s string) (VarFlag, diag.Diagnostics) {
	name, value, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		return VarFlag{}, diag.Diagnostics{diag.Errorf("Not a variable setting", "Write -var NAME=VALUE.", "%q has no %s.", s, map[bool]string{true: "name", false: "equals sign"}[ok])}
	}
	return VarFlag{Name: name, Value: value}, nil
}

// VarFile is one -var-file. After is the number of -var flags that stood
// before it on the command line: later settings win, as in Terraform.
type VarFile struct {
	File
	After int
}

// Inputs are what sets variables from outside. The order of precedence, low to
// high, is: default, environment, *.auto.lvslab.vars, then flags and files in
// the order of the command line.
type Inputs struct {
	Flags   []VarFlag
	Files   []VarFile
	Environ []string // NAME=VALUE, as os.Environ yields; others than LVSLAB_VAR_… are ignored
	// Version is the running version, against which required_version of the
	// lab block is checked; "" skips the check.
	Version string
}

// variables reads the declarations.
func (p *parser) variables() {
	for _, v := range p.c.variables {
		v.typ, v.def, v.nullable, v.bad = cty.DynamicPseudoType, cty.NilVal, true, v.block.broken
		if a := v.block.args["type"]; a != nil {
			typ, defaults, ds := typeexpr.TypeConstraintWithDefaults(a.Expr)
			if ds.HasErrors() {
				v.bad = true
				for _, d := range diag.FromHCL(ds) {
					d.Summary, d.Remedy = "Not a type", "Types are string, number, bool, any, list(T), set(T), map(T), object({ NAME = T }), tuple([T])."
					p.problems.add(d)
				}
				continue
			}
			v.typ, v.defaults = typ, defaults
		}
		v.secret = p.flag(v, "sensitive", false)
		v.nullable = p.flag(v, "nullable", true)
		if a := v.block.args["description"]; a != nil {
			p.constant(v, a, cty.String)
		}
		if a := v.block.args["default"]; a != nil {
			p.defaultValue(v, a)
		}
	}
}

func (p *parser) flag(v *variable, name string, def bool) bool {
	a := v.block.args[name]
	if a == nil {
		return def
	}
	val, ok := p.constant(v, a, cty.Bool)
	if !ok || val.IsNull() {
		return def
	}
	return val.True()
}

func (p *parser) defaultValue(v *variable, a *hclsyntax.Attribute) {
	val, ok := p.constant(v, a, cty.DynamicPseudoType)
	if !ok {
		return
	}
	conv, err := v.convert(val)
	if err != nil {
		v.bad = true
		p.problems.add(diag.Errorf("Default of the wrong type", "Make the default fit the type, or change the type.",
			"The default of variable %q does not fit the type %s: %s.", v.name, typeexpr.TypeString(v.typ), errorText(err)).At(a.Expr.Range()))
		return
	}
	v.def = conv
}

// constant evaluates an argument that may not refer to anything.
func (p *parser) constant(v *variable, a *hclsyntax.Attribute, want cty.Type) (cty.Value, bool) {
	if len(walkRefs(a.Expr).found) > 0 { // reported with the references
		v.bad = true
		return cty.NilVal, false
	}
	info := p.collect(a.Expr)
	if info.bad {
		v.bad = true
		return cty.NilVal, false
	}
	val, ds := a.Expr.Value(&hcl.EvalContext{Functions: functions})
	if !ds.HasErrors() {
		conv, err := convert.Convert(val, want)
		if err == nil && conv.IsWhollyKnown() {
			return conv, true
		}
		p.problems.add(wrongType(a.Name, v.block.title(), want, val, err).At(a.Expr.Range()))
	} else {
		p.problems.add(hclProblems(ds, a.Expr, nil)...)
	}
	v.bad = true
	return cty.NilVal, false
}

// convert applies the type and its optional attributes' defaults.
func (v *variable) convert(val cty.Value) (cty.Value, error) {
	val, marks := val.UnmarkDeepWithPaths()
	if v.defaults != nil && !val.IsNull() && val.IsKnown() {
		val = v.defaults.Apply(val)
	}
	val, err := convert.Convert(val, v.typ)
	if err != nil || len(marks) == 0 {
		return val, err
	}
	return val.Mark(sensitive), nil // which part it was may have changed
}

// setting is one value for a variable from outside.
type setting struct {
	value  cty.Value
	text   string // raw, when value is NilVal
	from   string // for messages: -var, the file, the environment variable
	at     *hcl.Range
	quiet  bool // an unknown name is ignored (environment)
	softly bool // an unknown name is a warning (files)
}

// settings merges the inputs by precedence.
func (c *Config) settings(in Inputs, probs *problems) map[string]setting {
	out := map[string]setting{}
	put := func(name string, s setting) {
		if !slices.Contains(c.variableNames(), name) {
			if !s.quiet {
				probs.add(c.undeclared(name, s))
			}
			return
		}
		out[name] = s
	}
	for _, kv := range in.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			put(strings.TrimPrefix(name, EnvPrefix), setting{text: value, from: name, quiet: true})
		}
	}
	for _, f := range c.src.AutoVars {
		readVarFile(f, probs, put)
	}
	files := in.Files
	for i := 0; i <= len(in.Flags); i++ {
		for len(files) > 0 && (files[0].After <= i || i == len(in.Flags)) {
			readVarFile(files[0].File, probs, put)
			files = files[1:]
		}
		if i < len(in.Flags) {
			put(in.Flags[i].Name, setting{text: in.Flags[i].Value, from: "-var"})
		}
	}
	return out
}

func (c *Config) undeclared(name string, s setting) diag.Diagnostic {
	remedy := fmt.Sprintf("Declare it: variable %q { … }, or leave the setting out.", name)
	if n := nearest(name, c.variableNames()); n != "" {
		remedy = fmt.Sprintf("Did you mean %q?", n)
	}
	d := diag.Errorf("Setting for no variable", remedy, "%s sets %q, which the topology does not declare.", s.from, name)
	if s.softly {
		d.Severity = diag.Warning
	}
	d.Subject = s.at
	return d
}

// readVarFile reads NAME = VALUE lines with constant values.
func readVarFile(f File, probs *problems, put func(string, setting)) {
	if d, bad := tooDeep(f.Bytes, f.Name); bad {
		probs.add(d)
		return
	}
	file, ds := hclsyntax.ParseConfig(f.Bytes, f.Name, hcl.InitialPos)
	if ds.HasErrors() {
		probs.add(syntaxProblems(ds)...)
		return
	}
	body := file.Body.(*hclsyntax.Body)
	for _, b := range body.Blocks {
		probs.add(diag.Errorf("No blocks in a variables file", "Write NAME = VALUE lines only; blocks belong into the topology.",
			"%s holds a %s block.", f.Name, b.Type).At(b.TypeRange))
	}
	for _, a := range sortAttributes(body.Attributes) {
		v, ds := a.Expr.Value(nil)
		if ds.HasErrors() {
			for _, d := range hclProblems(ds, a.Expr, nil) {
				d.Remedy = "Values of a variables file are constants: no references, no functions."
				probs.add(d)
			}
			continue
		}
		r := a.Expr.Range()
		put(a.Name, setting{value: v, from: f.Name, at: &r, softly: true})
	}
}

// bindVariables gives every variable its value, or reports why it has none.
func (e *evaluator) bindVariables(in Inputs) {
	given := e.c.settings(in, &e.problems)
	for _, v := range e.c.variables {
		val, ok := e.variableValue(v, given)
		if e.vars[v.name] = (result{val: val}); ok {
			e.vars[v.name] = e.guarded(v, val)
		}
	}
	for _, v := range e.c.variables {
		if e.vars[v.name].ok {
			e.validateVariable(v, phaseNames)
		}
	}
}

func (e *evaluator) variableValue(v *variable, given map[string]setting) (cty.Value, bool) {
	s, set := given[v.name]
	switch {
	case v.bad:
		return cty.DynamicVal, false
	case !set && v.def != cty.NilVal:
		return v.def, true
	case !set && e.sketch:
		return cty.UnknownVal(v.typ), true
	case !set:
		e.problems.add(diag.Errorf("No value for a variable", fmt.Sprintf("Give one: -var %s=VALUE, %s%s=VALUE, a variables file, or a default.", v.name, EnvPrefix, v.name),
			"The variable %q has no default and nothing sets it.", v.name).At(v.block.rng))
		return cty.DynamicVal, false
	}
	raw, ok := s.value, true
	if raw == cty.NilVal {
		raw, ok = e.settingValue(v, s)
	}
	if !ok {
		return cty.DynamicVal, false
	}
	val, err := v.convert(raw)
	if err == nil && val.IsNull() && !v.nullable {
		if v.def != cty.NilVal {
			return v.def, true
		}
		err = fmt.Errorf("null is not allowed")
	}
	if err != nil {
		shown := render(raw)
		if v.secret {
			shown = "(sensitive)"
		}
		d := diag.Errorf("Wrong type for a variable", fmt.Sprintf("Give variable %q a %s.", v.name, typeexpr.TypeString(v.typ)),
			"%s sets %q to %s: %s.", s.from, v.name, shown, errorText(err)).At(v.block.rng)
		if s.at != nil {
			d = d.At(*s.at)
		}
		e.problems.add(d)
		return cty.DynamicVal, false
	}
	return val, true
}

// settingValue reads a value given as text: text itself for a variable of
// type string or of no type, an expression for the others, as in Terraform.
func (e *evaluator) settingValue(v *variable, s setting) (cty.Value, bool) {
	if v.typ == cty.String || v.typ == cty.DynamicPseudoType || v.typ.IsPrimitiveType() {
		return cty.StringVal(s.text), true
	}
	name := fmt.Sprintf("<%s %s>", s.from, v.name)
	if d, bad := tooDeep([]byte(s.text), name); bad {
		e.problems.add(d)
		return cty.NilVal, false
	}
	expr, ds := hclsyntax.ParseExpression([]byte(s.text), name, hcl.InitialPos)
	if !ds.HasErrors() {
		val, vds := expr.Value(nil)
		if !vds.HasErrors() {
			return val, true
		}
		ds = vds
	}
	e.problems.add(diag.Errorf("Not a value", fmt.Sprintf("Write it as in the topology, for example -var '%s=[1, 2]'.", v.name),
		"%s sets %q to text that is not a constant expression: %s", s.from, v.name, ds[0].Detail).At(v.block.rng))
	return cty.NilVal, false
}

func (e *evaluator) validateVariable(v *variable, at phase) {
	for _, n := range v.block.nested {
		cond, msg := n.args["condition"], n.args["error_message"]
		if cond == nil || msg == nil {
			continue
		}
		here := site{phase: at, in: v.block.in}
		r := e.eval(cond.Expr, here)
		ok, known := e.truth(r, "condition of a validation")
		if !known || ok {
			continue
		}
		text := e.message(e.eval(msg.Expr, here))
		d := diag.Errorf("Value not allowed", fmt.Sprintf("Give variable %q another value.", v.name), "Variable %q: %s", v.name, text).At(cond.Expr.Range())
		d.Values = involved(cond.Expr, r.ctx)
		e.problems.add(d)
	}
}

// Missing returns the names of the variables that have neither a default nor
// a value among the inputs, in declared order.
func (c *Config) Missing(in Inputs) []string {
	var ignored problems
	given := c.settings(in, &ignored)
	var names []string
	for _, v := range c.variables {
		if _, set := given[v.name]; !set && v.def == cty.NilVal {
			names = append(names, v.name)
		}
	}
	return names
}
