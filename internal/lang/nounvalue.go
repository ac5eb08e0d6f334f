package lang

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/lvslab/lvslab/internal/addr"
)

// need says which attributes of a block an expression looks at.
type need struct {
	attrs map[string]bool
	all   bool  // it is used whole where a value is expected: any of them
	phase phase // of the expression: what comes later stays unknown
}

func (n *need) add(r ref, s site) {
	n.phase = s.phase
	switch {
	case r.attr != "":
		n.attrs[r.attr] = true
	case (!s.handle || r.root == string(addr.ModuleCall)) && !r.plain:
		n.all = true
	}
}

func (n *need) wants(a attribute) bool {
	return a.name == "id" || a.from <= n.phase && (n.all || n.attrs[a.name])
}

// blockValue is what an expression sees of a block: an object, or a list or a
// map of them when it has instances.
func (e *evaluator) blockValue(b *block, n *need) result {
	ex := e.expand(b)
	ty := objectTypeOf(b.noun.Kind)
	if !ex.ok {
		return result{val: cty.DynamicVal}
	}
	if ex.unknown { // in a sketch
		return result{val: cty.DynamicVal, ok: true}
	}
	ok := true
	var list []cty.Value
	byName := map[string]cty.Value{}
	for i := range ex.instances {
		inst := &ex.instances[i]
		r := e.instanceValue(b, inst, n)
		ok = ok && r.ok
		list = append(list, r.val)
		if k, named := inst.key.AsName(); named {
			byName[k] = r.val
		}
	}
	if !ok {
		return result{val: cty.DynamicVal}
	}
	var v cty.Value
	switch m := b.mode(); {
	case m == single:
		v = list[0]
	case m == byCount && len(list) == 0:
		v = cty.ListValEmpty(ty)
	case m == byCount:
		v = cty.ListVal(list)
	case len(byName) == 0:
		v = cty.MapValEmpty(ty)
	default:
		v = cty.MapVal(byName)
	}
	return result{val: v, ok: true}
}

func (e *evaluator) instanceValue(b *block, inst *instance, n *need) result {
	noun := b.noun.At(inst.key)
	ok := true
	attrs := map[string]cty.Value{handleAttr: cty.CapsuleVal(handleType, &noun)}
	for _, a := range attributesOf[noun.Kind] {
		attrs[a.name] = cty.UnknownVal(a.typ)
		if !n.wants(a) {
			continue
		}
		r := e.attribute(b, inst, a)
		if a.name == "paths" && !n.attrs[a.name] && e.results != nil && !r.val.IsKnown() {
			r.val = cty.NullVal(a.typ) // nobody asks for it: a service as an output is known without a proof
		}
		ok = ok && r.ok
		if r.ok {
			attrs[a.name] = r.val
		}
	}
	return result{val: cty.ObjectVal(attrs), ok: ok}
}

// attribute computes one attribute of one instance.
func (e *evaluator) attribute(b *block, inst *instance, a attribute) result {
	noun := b.noun.At(inst.key)
	unknown := result{val: cty.UnknownVal(a.typ), ok: true}
	switch {
	case a.name == "id":
		return result{val: cty.StringVal(noun.String()), ok: true}
	case noun.Kind == addr.Experiment:
		if r, have := e.results.experiment(noun.Name()); have {
			return result{val: r.value(a.name), ok: true}
		}
		return unknown
	case noun.Kind == addr.Service && a.name == "paths":
		if p, have := e.results.paths(noun.Name()); have {
			return result{val: pathList(p), ok: true}
		}
		return unknown
	case noun.Kind.Machine():
		if e.addresses == nil {
			return unknown
		}
		return e.machineAttribute(b, inst, a)
	case a.name == "vip" || a.name == "vips":
		return e.vipAttribute(b, inst, a)
	}
	arg := b.args[a.name]
	if arg == nil {
		return result{val: defaultOf(noun.Kind, a), ok: true}
	}
	spec, _ := b.spec.arg(a.name)
	return e.node(noun.String()+"."+a.name, spec.phase, arg.Expr.Range(), func() result {
		r := e.eval(arg.Expr, site{phase: spec.phase, inst: inst, in: b.in})
		if !r.ok {
			return result{val: cty.DynamicVal}
		}
		if a.name == "records" { // checked, and its ttl filled in, by its own reader
			return e.recordsAttribute(b, r)
		}
		v, err := convert.Convert(r.val, a.typ)
		if err != nil {
			e.problems.add(wrongType(a.name, b.title(), a.typ, r.val, err).At(arg.Expr.Range()))
			return result{val: cty.DynamicVal}
		}
		if v.IsNull() {
			v = defaultOf(noun.Kind, a)
		}
		return result{val: v, ok: true}
	})
}

// defaultOf is the value of an argument that was left out.
func defaultOf(kind addr.Kind, a attribute) cty.Value {
	switch {
	case kind == addr.Service && a.name == "port":
		return cty.NumberIntVal(defaultPort)
	case kind == addr.Service && a.name == "one_packet":
		return cty.False
	case kind == addr.Service && a.name == "protocol":
		return cty.StringVal(defaultProtocol)
	case kind == addr.Service && a.name == "scheduler":
		return cty.StringVal(defaultScheduler)
	case kind == addr.Service && a.name == "forward":
		return cty.StringVal(defaultForward)
	case kind == addr.Tunnel && a.name == "type":
		return cty.StringVal(defaultTunnel)
	case kind == addr.Tunnel && a.name == "checksum":
		return cty.StringVal(defaultChecksum)
	}
	return cty.NullVal(a.typ)
}

// machineAttribute reads the addresses that were assigned.
func (e *evaluator) machineAttribute(b *block, inst *instance, a attribute) result {
	var nics []cty.Value
	for i, s := range e.nicSlots(b, inst) {
		if !s.ok {
			return result{val: cty.UnknownVal(a.typ), ok: e.sketch}
		}
		var all []cty.Value
		for _, key := range SlotKeys(b.noun.At(inst.key), i, s.count) {
			ip, have := e.addresses[key]
			if !have {
				return result{val: cty.UnknownVal(a.typ), ok: true}
			}
			all = append(all, cty.StringVal(ip.String()))
		}
		if i == 0 && a.name == "address" {
			return result{val: all[0], ok: true}
		}
		if i == 0 && a.name == "addresses" {
			return result{val: cty.ListVal(all), ok: true}
		}
		nics = append(nics, cty.ObjectVal(map[string]cty.Value{
			"network": cty.StringVal(s.network.String()), "address": all[0], "addresses": cty.ListVal(all),
		}))
	}
	if a.name != "nic" || len(nics) == 0 {
		return result{val: cty.UnknownVal(a.typ), ok: e.sketch}
	}
	return result{val: cty.ListVal(nics), ok: true}
}

// SlotKeys are the keys under which the addresses of a machine's i-th NIC are
// assigned and kept in state: the primary one is client.c[0]/nic.0, further
// ones client.c[0]/nic.0.1 and so on.
func SlotKeys(machine addr.Noun, nic, count int) []string {
	base := fmt.Sprintf("%s/nic.%d", machine, nic)
	keys := []string{base}
	for i := 1; i < count; i++ {
		keys = append(keys, fmt.Sprintf("%s.%d", base, i))
	}
	return keys
}
