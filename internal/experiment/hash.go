package experiment

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
)

// StudyKey is what identifies a study beside the topology and the experiment.
type StudyKey struct {
	ImageDigests  []string // of the images that the machines run
	Accelerator   string   // kvm or tcg
	SchemaVersion string   // of the artifact
}

// StudyHash identifies a study: 64 hexadecimal digits over everything that can
// change a result. Left out are the lab's name, description and teardown, the
// provider's URI, the other experiments, the variables (only what became of
// them counts), source positions, and the number of iterations: blocks can be
// added to a study, and its first blocks stay the same.
func StudyHash(t *lang.Topology, e lang.Experiment, key StudyKey) string {
	e.Iterations = 0
	images := slices.Clone(key.ImageDigests)
	slices.Sort(images)
	parts := struct {
		Networks   []lang.Network
		Machines   []lang.Machine
		Zones      []lang.Zone
		Tunnels    []lang.Tunnel
		Services   []lang.Service
		Experiment lang.Experiment
		Images     []string
		Accel      string
		Schema     string
	}{t.Networks, t.Machines, t.Zones, t.Tunnels, t.Services, e, slices.Compact(images), key.Accelerator, key.SchemaVersion}
	var b strings.Builder
	canonical(&b, reflect.ValueOf(parts))
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

var (
	rangeType = reflect.TypeFor[diag.Range]()
	valueType = reflect.TypeFor[cty.Value]()
)

// canonical writes a value as one text that does not depend on map order,
// source positions, or fields that are zero (so that a field which a later
// version adds leaves the hashes of older topologies alone).
func canonical(b *strings.Builder, v reflect.Value) {
	switch {
	case v.Type() == valueType:
		canonicalCty(b, v.Interface().(cty.Value))
		return
	case v.Type().Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		fmt.Fprintf(b, "%q", text)
		if err != nil {
			fmt.Fprintf(b, "!%q", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		canonical(b, v.Elem())
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			field, f := v.Type().Field(i), v.Field(i)
			if field.IsExported() && field.Type != rangeType && !f.IsZero() {
				b.WriteString(field.Name + "=")
				canonical(b, f)
				b.WriteByte(';')
			}
		}
		b.WriteByte('}')
	case reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			canonical(b, v.Index(i))
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case reflect.Map:
		canonicalMap(b, v)
	case reflect.Float64, reflect.Float32:
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprint(b, v.Interface())
	}
}

func canonicalMap(b *strings.Builder, v reflect.Value) {
	lines := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		var line strings.Builder
		canonical(&line, k)
		line.WriteString("=")
		canonical(&line, v.MapIndex(k))
		lines = append(lines, line.String())
	}
	slices.Sort(lines)
	b.WriteString("{" + strings.Join(lines, ";") + "}")
}

func canonicalCty(b *strings.Builder, v cty.Value) {
	text, err := ctyjson.Marshal(v, cty.DynamicPseudoType)
	if err != nil {
		fmt.Fprintf(b, "!%q", err)
		return
	}
	b.Write(text)
}
