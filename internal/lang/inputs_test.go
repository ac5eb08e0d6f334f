package lang_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

const withVariables = `
lab "x" {
  required_version = ">= 0.2, < 1.0"
}
variable "n" {
  type    = number
  default = 1
}
variable "list" {
  type    = list(string)
  default = []
}
variable "name" {}
variable "shape" {
  type    = object({ a = number, b = optional(string, "b") })
  default = { a = 1 }
}
variable "secret" {
  default   = "x"
  sensitive = true
}
output "all" {
  value = "${var.n} ${join(",", var.list)} ${var.name} ${var.shape.a}${var.shape.b}"
}
output "hidden" {
  value     = var.secret
  sensitive = true
}
`

func outputs(t *testing.T, src lang.Source, in lang.Inputs) (string, diag.Diagnostics) {
	t.Helper()
	l, ds := load(src, in)
	if ds.HasErrors() {
		return "", ds
	}
	if _, shown := l.topology.Variables["secret"]; shown {
		t.Error("a sensitive variable must not stand in the topology")
	}
	if o := l.conclusion.Outputs["hidden"]; !o.Sensitive || show(o.Value) == "" {
		t.Errorf("sensitive output: %+v", o)
	}
	return l.conclusion.Outputs["all"].Value.AsString(), ds
}

// TestPrecedence: default, environment, auto files, then the command line in its order.
func TestPrecedence(t *testing.T) {
	auto := lang.File{Name: "a.auto.lvslab.vars", Bytes: []byte("n = 3\nname = \"auto\"\n")}
	file := lang.File{Name: "my.vars", Bytes: []byte("n = 5\nlist = [\"f\"]\n")}
	env := []string{"PATH=/bin", "LVSLAB_VAR_n=2", "LVSLAB_VAR_name=env", `LVSLAB_VAR_list=["e"]`, "LVSLAB_VAR_other=1"}
	for _, tc := range []struct {
		name string
		auto []lang.File
		in   lang.Inputs
		want string
	}{
		{"environment", nil, lang.Inputs{Environ: env}, "2 e env 1b"},
		{"auto over environment", []lang.File{auto}, lang.Inputs{Environ: env}, "3 e auto 1b"},
		{"file over auto", []lang.File{auto}, lang.Inputs{Environ: env, Files: []lang.VarFile{{File: file}}}, "5 f auto 1b"},
		{"flag over file", nil, lang.Inputs{Environ: env, Files: []lang.VarFile{{File: file}}, Flags: []lang.VarFlag{{Name: "n", Value: "7"}}}, "7 f env 1b"},
		{"file after flag", nil, lang.Inputs{Environ: env, Files: []lang.VarFile{{File: file, After: 1}}, Flags: []lang.VarFlag{{Name: "n", Value: "7"}}}, "5 f env 1b"},
		{"last flag", nil, lang.Inputs{Flags: []lang.VarFlag{{Name: "name", Value: "a=b"}, {Name: "n", Value: "7"}, {Name: "n", Value: "8"}}}, "8  a=b 1b"},
		{"object", nil, lang.Inputs{Environ: env, Flags: []lang.VarFlag{{Name: "shape", Value: `{ a = 4, b = "c" }`}}}, "2 e env 4c"},
	} {
		src := text("v.hcl", withVariables)
		src.AutoVars = tc.auto
		got, ds := outputs(t, src, tc.in)
		if ds.HasErrors() || got != tc.want {
			t.Errorf("%s: got %q (%v), want %q", tc.name, got, ds.Err(), tc.want)
		}
	}
}

func TestBadInputs(t *testing.T) {
	flag := func(name, value string) lang.Inputs {
		return lang.Inputs{Flags: []lang.VarFlag{{Name: "name", Value: "x"}, {Name: name, Value: value}}}
	}
	file := func(text string) lang.Inputs {
		return lang.Inputs{Files: []lang.VarFile{{File: lang.File{Name: "my.vars", Bytes: []byte(text)}}}, Flags: []lang.VarFlag{{Name: "name", Value: "x"}}}
	}
	for _, tc := range []struct {
		in                      lang.Inputs
		summary, detail, remedy string
		severity                diag.Severity
	}{
		{lang.Inputs{}, "No value for a variable", `"name"`, "-var name=VALUE", diag.Error},
		{flag("m", "1"), "Setting for no variable", `-var sets "m"`, "Declare it", diag.Error},
		{flag("lits", "1"), "Setting for no variable", `"lits"`, `Did you mean "list"?`, diag.Error},
		{flag("n", "many"), "Wrong type for a variable", `-var sets "n" to "many"`, "number", diag.Error},
		{flag("list", "[1"), "Not a value", `"list"`, "-var 'list=[1, 2]'", diag.Error},
		{flag("list", "[foo]"), "Not a value", `"list"`, "-var 'list=[1, 2]'", diag.Error},
		{flag("secret", `[]`), "", "", "", diag.Error}, // text for a variable without a type
		{file("m = 1"), "Setting for no variable", `my.vars sets "m"`, "Declare it", diag.Warning},
		{file("n = foo"), "Variables not allowed", "", "constants", diag.Error},
		{file("n = {"), "Missing key", "", "Correct the syntax", diag.Error},
		{file("b {}"), "No blocks in a variables file", "b block", "NAME = VALUE", diag.Error},
		{lang.Inputs{Version: "0.1.9", Flags: []lang.VarFlag{{Name: "name", Value: "x"}}}, "Wrong version of lvslab", "0.1.9", "Install", diag.Error},
	} {
		_, ds := load(text("v.hcl", withVariables), tc.in)
		if tc.summary == "" {
			if ds.HasErrors() {
				t.Errorf("unexpected: %v", ds.Err())
			}
			continue
		}
		if len(ds) != 1 {
			t.Errorf("%s: want one message, got %v", tc.summary, ds)
			continue
		}
		d := ds[0]
		if d.Severity != tc.severity || tc.summary != "Missing key" && d.Summary != tc.summary || !strings.Contains(d.Detail, tc.detail) || !strings.Contains(d.Remedy, tc.remedy) {
			t.Errorf("want %s/%s/%s, got %s", tc.summary, tc.detail, tc.remedy, d)
		}
	}
}

// TestCheck: without inputs, what does not depend on them is found.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		more string
		want string
	}{
		{"", ""},
		{"network \"lan\" { cidr = var.name }\nclient \"c\" {\n  count = var.n\n  nic {\n    network = network.lan\n  }\n}\n", ""},
		{"network \"lan\" { cidr = var.n }\n", "Not a network"},
		{"output \"x\" { value = var.n + [] }\n", "Invalid operand"},
	} {
		c, ds := lang.Parse(text("v.hcl", withVariables+tc.more))
		if ds.HasErrors() {
			t.Fatal(ds.Err())
		}
		got := ""
		for _, d := range c.Check(lang.Inputs{}) {
			got += d.Summary
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.more, got, tc.want)
		}
	}
}

func TestVersionConstraints(t *testing.T) {
	for _, tc := range []struct {
		constraint, version string
		ok                  bool
	}{
		{">= 0.2, < 1.0", "0.2.0", true}, {">= 0.2, < 1.0", "v0.9.1-rc1", true}, {">= 0.2, < 1.0", "1.0.0", false},
		{"~> 1.2", "1.9.0", true}, {"~> 1.2", "2.0.0", false}, {"~> 1.2.3", "1.3.0", false}, {"~> 1.2.3", "1.2.9", true},
		{"1.2.3", "1.2.3", true}, {"= 1.2", "1.2.1", false}, {"!= 1.2", "1.2", false}, {"> 1", "1.0.1", true}, {"<= 1.0", "1.0.0", true},
		{">= 9", "(devel)", true}, {"soon", "1.0.0", false}, {"", "1.0.0", false},
	} {
		_, ds := load(text("v.hcl", `lab "x" { required_version = "`+tc.constraint+`" }`), lang.Inputs{Version: tc.version})
		if ds.HasErrors() == tc.ok {
			t.Errorf("%q with %s: %v", tc.constraint, tc.version, ds)
		}
	}
}

// TestVersionComesFirst: a topology for a newer lvslab is not picked to pieces.
func TestVersionComesFirst(t *testing.T) {
	src := text("v.hcl", `
lab "x" { required_version = "> 2" }
gateway "g" {
  colour = nofunc(var.x)
}
`)
	src.Files = append(src.Files, lang.File{Name: "w.hcl", Bytes: []byte("broken {{\n")})
	for version, want := range map[string]int{"1.9.0": 1, "2.1.0": 2, "dev": 2, "": 2} {
		src.Version = version
		_, ds := lang.Parse(src)
		if first := ds[0].Summary == "Wrong version of lvslab"; first != (want == 1) || first && len(ds) != 1 {
			t.Errorf("%s: %v", version, ds)
		}
	}
}

func TestParseVarFlag(t *testing.T) {
	if f, ds := lang.ParseVarFlag("a=b=c"); ds != nil || f != (lang.VarFlag{Name: "a", Value: "b=c"}) {
		t.Errorf("%+v %v", f, ds)
	}
	for _, s := range []string{"a", "=b", ""} {
		if _, ds := lang.ParseVarFlag(s); !ds.HasErrors() {
			t.Errorf("%q must be an error", s)
		}
	}
}

func TestReadSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my lab.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"b.hcl": "locals {}", "a.hcl": "locals {}", ".hidden.hcl": "x", "x.auto.lvslab.vars": "n = 1", "README.md": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src, ds := lang.ReadSource(dir)
	if ds.HasErrors() || src.Name != "my-lab-d" || src.Root != dir {
		t.Fatalf("%+v %v", src, ds)
	}
	var names []string
	for _, f := range append(src.Files, src.AutoVars...) {
		names = append(names, filepath.Base(f.Name))
	}
	if d := cmp.Diff([]string{"a.hcl", "b.hcl", "x.auto.lvslab.vars"}, names); d != "" {
		t.Error(d)
	}
	one, ds := lang.ReadSource(filepath.Join(dir, "b.hcl"))
	if ds.HasErrors() || len(one.Files) != 1 || len(one.AutoVars) != 0 || one.Name != "b" || one.Root != dir {
		t.Errorf("a file alone: %+v %v", one, ds)
	}
	if string(one.Text(one.Files[0].Name)) != "locals {}" || one.Text("other") != nil {
		t.Error("text by name")
	}
	if _, ds = lang.ReadSource(filepath.Join(dir, "bb.hcl")); len(ds) != 1 || !strings.Contains(ds[0].Remedy, "b.hcl?") {
		t.Errorf("a missing file: %v", ds)
	}
	if _, ds = lang.ReadSource(t.TempDir()); len(ds) != 1 || ds[0].Summary != "No topology in this directory" {
		t.Errorf("an empty directory: %v", ds)
	}
	big := filepath.Join(dir, "z.hcl")
	if err := os.WriteFile(big, []byte(strings.Repeat("#\n", 1<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ds = lang.ReadSource(big); len(ds) != 1 || ds[0].Summary != "The file is too large" {
		t.Errorf("a huge file: %v", ds)
	}
}

func TestFormat(t *testing.T) {
	got, ds := lang.Format([]byte("network \"lan\" {\ncidr=\"198.18.0.0/24\"\n  mtu = 1400 # x\n}\n"), "f.hcl")
	want := "network \"lan\" {\n  cidr = \"198.18.0.0/24\"\n  mtu  = 1400 # x\n}\n"
	if ds.HasErrors() || string(got) != want {
		t.Errorf("%s %v", got, ds)
	}
	if again, _ := lang.Format(got, "f.hcl"); string(again) != want {
		t.Errorf("formatting twice changes: %s", again)
	}
	bad := []byte("network {{\n")
	if got, ds = lang.Format(bad, "f.hcl"); !ds.HasErrors() || string(got) != string(bad) {
		t.Errorf("a broken file must come back as it is: %s %v", got, ds)
	}
}

// TestSensitiveStaysHidden: neither messages nor errors show the value.
func TestSensitiveStaysHidden(t *testing.T) {
	src := text("s.hcl", `
variable "secret" {
  default   = "hunter2"
  sensitive = true
}
network "lan" { cidr = var.secret }
client "c" {
  count = 1
  nic {
    network = var.secret
  }
}
check "c" {
  assert {
    condition     = var.secret
    error_message = "it was ${var.secret}"
  }
}
output "o" { value = [var.secret] }
`)
	_, ds := load(src, lang.Inputs{})
	if len(ds) < 4 {
		t.Errorf("want four mistakes, got %v", ds)
	}
	shown := plain(ds, lang.Source{})
	if strings.Contains(shown, "hunter2") {
		t.Errorf("the value is shown:\n%s", shown)
	}
}

// TestOutputOfABlockKeepsTheSecret: a value that went through a block has no mark
// any more, and is not shown for that.
func TestOutputOfABlockKeepsTheSecret(t *testing.T) {
	for value, want := range map[string]string{
		"zone.z.records": "Sensitive output",
		"[for r in zone.z.records : upper(r.type)]": "",
		"nonsensitive(zone.z.records)":              "",
		"zone.z.records\n  sensitive = true":        "",
		"\"key: ${zone.z.records[0].values[0]}\"":   "Sensitive output",
	} {
		_, ds := load(text("s.hcl", `
variable "secret" {
  default   = "hunter2"
  sensitive = true
}
zone "z" {
  name    = "lab.test"
  records = [{ name = "a", type = "TXT", values = [var.secret] }]
}
output "o" {
  value = `+value+`
}
`), lang.Inputs{})
		if got := plain(ds, lang.Source{}); want == "" && ds.HasErrors() || !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: want %q, got\n%s", value, want, got)
		}
	}
}

// TestRedact: what was evaluated without its marks can still be hidden.
func TestRedact(t *testing.T) {
	l, ds := load(text("s.hcl", `
variable "secret" {
  default   = { key = "a\"quoted\" key", id = "abc", list = ["hunter2"] }
  sensitive = true
}
`), lang.Inputs{})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	got := l.config.Redact(l.skeleton, `x = "a\"quoted\" key" hunter2 abc`)
	if got != `x = "(sensitive)" (sensitive) abc` {
		t.Errorf("%s", got)
	}
}
