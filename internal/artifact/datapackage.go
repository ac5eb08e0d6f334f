package artifact

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// rawTable is a table that runs may have in raw/<run_id>/. The resources of one
// kind share a Table Schema.
type rawTable struct {
	file, schema, prefix string
	fields               map[string]dpField
	source               string
}

var rawTables = []rawTable{
	{QueriesFile, RawDir + "/queries.schema.json", "queries-", queryFields, "client capture"},
	{GeneratorFile, RawDir + "/generator.schema.json", "generator-", generatorFields, "load generator"},
	{ClientsFile, RawDir + "/clients.schema.json", "clients-", clientFields, "client capture"},
}

// dpField is a field of a Frictionless Table Schema; unit and source are our
// own properties, which the standard allows.
type dpField struct {
	Name        string         `json:"name"`
	Type        string         `json:"type"`
	Format      string         `json:"format,omitempty"`
	TrueValues  []string       `json:"trueValues,omitempty"`
	FalseValues []string       `json:"falseValues,omitempty"`
	Unit        string         `json:"unit,omitempty"`
	Description string         `json:"description,omitempty"`
	Source      string         `json:"source,omitempty"`
	Constraints *dpConstraints `json:"constraints,omitempty"`
}

type dpConstraints struct {
	Required bool `json:"required"`
}

type dpSchema struct {
	Fields        []dpField      `json:"fields"`
	MissingValues []string       `json:"missingValues"`
	PrimaryKey    []string       `json:"primaryKey,omitempty"`
	ForeignKeys   []dpForeignKey `json:"foreignKeys,omitempty"`
}

type dpForeignKey struct {
	Fields    string      `json:"fields"`
	Reference dpReference `json:"reference"`
}

type dpReference struct {
	Resource string `json:"resource"`
	Fields   string `json:"fields"`
}

type dpResource struct {
	Name      string            `json:"name"`
	Path      string            `json:"path"`
	Profile   string            `json:"profile"`
	Format    string            `json:"format"`
	MediaType string            `json:"mediatype"`
	Encoding  string            `json:"encoding"`
	Dialect   map[string]string `json:"dialect"`
	Schema    any               `json:"schema"` // a dpSchema or the path of one
}

type dpPackage struct {
	Profile   string       `json:"profile"`
	Name      string       `json:"name"`
	Title     string       `json:"title"`
	Resources []dpResource `json:"resources"`
}

// dataPackage describes the tables of the result in dir: datapackage.json (a
// Frictionless Tabular Data Package) and the schemas that the tables of all runs
// share.
func dataPackage(dir, lab, run string, factors []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	p := dpPackage{Profile: "tabular-data-package", Name: packageName(lab + "-" + run),
		Title: fmt.Sprintf("Result %s of lab %s", run, lab)}
	runs := schemaOf(runColumnsWith(factors))
	runs.PrimaryKey = []string{"run_id"}
	backends := schemaOf(backendColumns)
	backends.PrimaryKey = []string{"run_id", "backend"}
	backends.ForeignKeys = []dpForeignKey{{"run_id", dpReference{"runs", "run_id"}}}
	p.Resources = append(p.Resources, tableResource("runs", RunsFile, runs), tableResource("backends", BackendsFile, backends))

	raw, err := os.ReadDir(filepath.Join(dir, RawDir)) // sorted by name
	if err != nil {
		return nil, err
	}
	for _, e := range raw {
		for _, t := range rawTables {
			path := filepath.Join(dir, RawDir, e.Name(), t.file)
			if _, err := os.Stat(path); err != nil {
				continue // another generator, or a run that was cut short
			}
			if out[t.schema] == nil {
				schema, err := t.describe(path)
				if err != nil {
					return nil, err
				}
				if out[t.schema], err = indent(schema); err != nil {
					return nil, err
				}
			}
			p.Resources = append(p.Resources, tableResource(packageName(t.prefix+e.Name()), RawDir+"/"+e.Name()+"/"+t.file, t.schema))
		}
	}
	out[DataPackageFile], err = indent(p)
	return out, err
}

func tableResource(name, path string, schema any) dpResource {
	return dpResource{Name: name, Path: path, Profile: "tabular-data-resource", Format: "csv",
		MediaType: "text/csv", Encoding: "utf-8",
		Dialect: map[string]string{"delimiter": ",", "lineTerminator": "\n", "quoteChar": `"`}, Schema: schema}
}

func schemaOf[T any](columns []column[T]) dpSchema {
	s := dpSchema{MissingValues: []string{""}}
	for _, c := range columns {
		f := dpField{Name: c.name, Type: c.typ, Unit: c.unit, Description: c.description, Source: c.source}
		if c.typ == "datetime" {
			f.Format = "any" // the standard's default knows no fractions of a second
		}
		if c.required {
			f.Constraints = &dpConstraints{Required: true}
		}
		s.Fields = append(s.Fields, f)
	}
	return s
}

// describe describes the columns that such a table has, by its header line.
func (t rawTable) describe(path string) (dpSchema, error) {
	s := dpSchema{MissingValues: []string{""}}
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	head, err := csv.NewReader(f).Read()
	if errors.Is(err, io.EOF) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w", path, err)
	}
	for _, name := range head {
		f := dpField{Name: name, Type: "string", Source: t.source}
		if known, ok := t.fields[name]; ok {
			known.Name, known.Source = name, f.Source
			f = known
		}
		s.Fields = append(s.Fields, f)
	}
	return s, nil
}

// packageName makes a Frictionless name: lower case, digits, dot, dash, underscore.
func packageName(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, strings.ToLower(s))
}

func indent(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", DataPackageFile, err)
	}
	return append(b, '\n'), nil
}
