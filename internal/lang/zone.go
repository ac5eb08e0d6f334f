package lang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/miekg/dns"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/lvslab/lvslab/internal/diag"
)

// maxTTL is the largest TTL, in seconds (RFC 2181 §8).
const maxTTL = 1<<31 - 1

func (e *evaluator) zone(b *block) Zone {
	r := e.reader(b, nil)
	z := Zone{Noun: r.noun, Range: b.rng, Name: strings.ToLower(strings.TrimSuffix(r.text("name", ""), "."))}
	if b.args["name"] != nil && !e.defects.arg(r.noun, "name") && badName(z.Name) {
		r.complain("name", "Not a domain name", `Write a name like "lab.test".`, "name of %s is %q.", r.noun, z.Name)
	}
	if b.args["records"] != nil {
		res := r.raw("records")
		list := r.records(res)
		for i := range list {
			if rec := list[i]; rec != nil {
				z.Records = append(z.Records, *rec)
				if !e.defects.arg(r.noun, "name") {
					r.checkRecord(z.Name, i, *rec)
				}
			}
		}
		r.duplicates(list)
	}
	return z
}

// badName: 253 characters at most, labels of 1 to 63, no characters that a
// master file would take for something else.
func badName(s string) bool {
	_, ok := dns.IsDomainName(s)
	return !ok || s == "" || strings.HasPrefix(s, ".") || len(s) > 253 || strings.ContainsAny(s, " \t\r\n;()\"\\$@") || hasControl(s)
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return true
		}
	}
	return false
}

// recordsAttribute is zone.NAME.records as expressions see it.
func (e *evaluator) recordsAttribute(b *block, res result) result {
	r := e.reader(b, nil)
	records := r.records(res)
	if e.defects.arg(r.noun, "records") {
		return result{val: cty.DynamicVal}
	}
	out := []cty.Value{}
	for _, rec := range records {
		var values []cty.Value
		for _, v := range rec.Values {
			values = append(values, cty.StringVal(v))
		}
		out = append(out, cty.ObjectVal(map[string]cty.Value{
			"name": cty.StringVal(rec.Name), "type": cty.StringVal(rec.Type), "ttl": cty.NumberIntVal(int64(rec.TTL)), "values": cty.ListVal(values),
		}))
	}
	if len(out) == 0 {
		return result{val: cty.ListValEmpty(recordType), ok: true}
	}
	return result{val: cty.ListVal(out), ok: true}
}

// records reads the list of objects { name, type, ttl, values }. A record that
// is wrong is reported and nil.
func (r *reader) records(res result) []*Record {
	if !r.e.known(res, "records of "+r.noun.String()) {
		r.fail("records")
		return nil
	}
	r.ctx = res.ctx
	v, _ := res.val.UnmarkDeep()
	if v.IsNull() || !(v.Type().IsListType() || v.Type().IsTupleType()) {
		r.complain("records", "Wrong type", `Write records = [{ name = "www", type = "A", values = ["192.0.2.1"] }].`,
			"records of %s must be a list of objects, but is %s.", r.noun, render(v))
		return nil
	}
	var out []*Record
	for i, ev := range v.AsValueSlice() {
		out = append(out, r.record(i, ev))
	}
	return out
}

// recordProblem reports one record at its own place when the list is written out.
func (r *reader) recordProblem(i int, summary, remedy, format string, args ...any) {
	r.fail("records")
	expr := r.b.args["records"].Expr
	if tuple, ok := expr.(*hclsyntax.TupleConsExpr); ok && i < len(tuple.Exprs) {
		expr = tuple.Exprs[i]
	}
	d := diag.Errorf(summary, remedy, format, args...).At(expr.Range()).For(r.noun.String())
	d.Values = involved(expr, r.ctx)
	r.e.problems.add(d)
}

func (r *reader) record(i int, v cty.Value) *Record {
	if v.IsNull() || !(v.Type().IsObjectType() || v.Type().IsMapType()) {
		r.recordProblem(i, "Wrong type", `Write { name = "www", type = "A", values = ["192.0.2.1"] }.`, "Record %d of %s is %s, not an object.", i, r.noun, render(v))
		return nil
	}
	rec, ok := &Record{TTL: defaultTTL}, true
	fields := v.AsValueMap()
	known := []string{"name", "type", "ttl", "values"}
	for _, k := range sortedKeys(fields) {
		if !slices.Contains(known, k) {
			ok = false
			r.recordProblem(i, "Unknown attribute", suggest(k, known, "A record has"), "Record %d of %s has the attribute %q.", i, r.noun, k)
		}
	}
	for _, k := range known {
		fv, given := fields[k]
		if !given || fv.IsNull() {
			if k != "ttl" && ok {
				ok = false
				r.recordProblem(i, "Attribute missing", fmt.Sprintf("Add %s = … to it.", k), "Record %d of %s has no %s: %s.", i, r.noun, k, render(v))
			}
			continue
		}
		if err := rec.set(k, fv); err != nil {
			ok = false
			r.recordProblem(i, "Wrong type", "Give name and type texts, ttl a whole number of seconds, values a list of texts.",
				"%s of record %d of %s is %s: %s.", k, i, r.noun, render(fv), errorText(err))
		}
	}
	if !ok {
		return nil
	}
	return rec
}

func (rec *Record) set(field string, v cty.Value) error {
	switch field {
	case "ttl":
		n, err := convert.Convert(v, cty.Number)
		if err != nil {
			return err
		}
		ttl, exact := exactInt(n.AsBigFloat())
		if !exact || ttl < 0 || ttl > maxTTL {
			return fmt.Errorf("a TTL is a whole number from 0 to %d", maxTTL)
		}
		rec.TTL = ttl
		return nil
	case "values":
		list, err := convert.Convert(v, cty.List(cty.String))
		if err != nil {
			return err
		}
		for _, ev := range list.AsValueSlice() {
			if ev.IsNull() {
				return fmt.Errorf("a value is null")
			}
			rec.Values = append(rec.Values, ev.AsString())
		}
		if len(rec.Values) == 0 {
			return fmt.Errorf("the list is empty")
		}
		return nil
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return err
	}
	if field == "name" {
		rec.Name = strings.ToLower(s.AsString())
	} else {
		rec.Type = strings.ToUpper(s.AsString())
	}
	return nil
}

// checkRecord parses each value as a resource record.
func (r *reader) checkRecord(zone string, i int, rec Record) {
	owner := rec.Name + "." + zone
	if rec.Name == "@" {
		owner = zone
	}
	switch {
	case strings.HasSuffix(rec.Name, "."):
		r.recordProblem(i, "Name not relative", fmt.Sprintf("Leave %q out of it; @ is the zone itself.", zone), "Record %d of %s has the absolute name %q.", i, r.noun, rec.Name)
		return
	case rec.Name != "@" && badName(rec.Name) || badName(owner):
		r.recordProblem(i, "Not a domain name", "Use letters, digits, dash, underscore and dots, 63 characters a label.", "Record %d of %s has the name %q.", i, r.noun, rec.Name)
		return
	case rec.Type == "SOA" || rec.Type == "NS" && rec.Name == "@":
		r.recordProblem(i, "Written by lvslab", "Leave the record out.", "Record %d of %s is the zone's %s, which lvslab makes itself.", i, r.noun, rec.Type)
		return
	}
	rrtype, known := dns.StringToType[rec.Type]
	if !known || dns.TypeToRR[rrtype] == nil || rrtype == dns.TypeOPT || rrtype == dns.TypeTSIG || rrtype == dns.TypeTKEY {
		r.recordProblem(i, "Unknown record type", suggest(rec.Type, commonTypes, "Usual types are"), "Record %d of %s has the type %q.", i, r.noun, rec.Type)
		return
	}
	for _, v := range rec.Values {
		if hasControl(v) {
			r.recordProblem(i, "Not a record value", "Write it in one line of ASCII.", "Record %d of %s (%s %s) has the value %q.", i, r.noun, rec.Name, rec.Type, v)
			continue
		}
		rr, err := dns.NewRR(fmt.Sprintf("%s. %d IN %s %s", owner, rec.TTL, rec.Type, v))
		if err != nil || rr == nil || rr.Header().Rrtype != rrtype || rrtype == dns.TypeA && strings.Contains(v, ":") {
			r.recordProblem(i, "Not a record value", valueExample(rec.Type), "Record %d of %s (%s %s) has the value %q, which is no %s data.", i, r.noun, rec.Name, rec.Type, v, rec.Type)
		}
	}
}

var commonTypes = []string{"A", "AAAA", "CNAME", "MX", "TXT", "PTR", "SRV", "NS", "CAA"}

func valueExample(rrtype string) string {
	examples := map[string]string{"A": "192.0.2.1", "AAAA": "2001:db8::1", "CNAME": "www.lab.test.", "MX": "10 mail.lab.test.", "TXT": `\"some text\"`, "SRV": "0 5 53 ns.lab.test."}
	if x, ok := examples[rrtype]; ok {
		return fmt.Sprintf("Write it as in a master file, for example \"%s\".", x)
	}
	return "Write it as in a master file."
}

// duplicates: one entry for a name and type, one value once, CNAME alone.
func (r *reader) duplicates(records []*Record) {
	first := map[string]int{}
	cname := map[string]int{}
	types := map[string]int{}
	for i, rec := range records {
		if rec == nil {
			continue
		}
		key := rec.Name + " " + rec.Type
		if j, dup := first[key]; dup {
			r.recordProblem(i, "Declared twice", "Put all values into one record.", "Record %d of %s is %s, as record %d is.", i, r.noun, key, j)
			continue
		}
		first[key] = i
		values := map[string]bool{}
		for _, v := range rec.Values {
			if values[v] {
				r.recordProblem(i, "Value twice", "Remove one of the two.", "Record %d of %s (%s) has the value %q twice.", i, r.noun, key, v)
			}
			values[v] = true
		}
		if rec.Type == "CNAME" {
			cname[rec.Name] = i
			if len(rec.Values) > 1 {
				r.recordProblem(i, "CNAME with several values", "Give it one.", "Record %d of %s (%s) has %d values.", i, r.noun, key, len(rec.Values))
			}
		}
		types[rec.Name]++
	}
	for _, name := range sortedKeys(cname) {
		if i := cname[name]; types[name] > 1 {
			r.recordProblem(i, "CNAME beside other records", "A name with a CNAME has nothing else (RFC 1034 §3.6.2).", "Record %d of %s is a CNAME for %q, which has other records.", i, r.noun, name)
		}
	}
}
