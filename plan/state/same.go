package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// same reports whether two states say the same. Version, serial and who wrote
// them do not count.
func same(a, b *State) bool {
	return a.Lineage == b.Lineage && a.Lab == b.Lab && a.Source == b.Source &&
		bytes.Equal(a.Hypervisor, b.Hypervisor) && maps.Equal(a.Addresses, b.Addresses) &&
		maps.Equal(a.Identities, b.Identities) && a.Study == b.Study && a.LastArtifact == b.LastArtifact &&
		slices.Equal(a.Hidden, b.Hidden) && slices.EqualFunc(a.Resources, b.Resources, sameResource) && maps.EqualFunc(a.Outputs, b.Outputs, sameOutput)
}

func sameResource(a, b Resource) bool {
	return a.Addr == b.Addr && a.Type == b.Type && a.Status == b.Status && a.Within == b.Within &&
		bytes.Equal(a.Attrs, b.Attrs) && bytes.Equal(a.Half, b.Half) && slices.Equal(a.DependsOn, b.DependsOn)
}

func sameOutput(a, b Output) bool {
	return a.Sensitive == b.Sensitive && bytes.Equal(a.Value, b.Value) && bytes.Equal(a.Type, b.Type)
}

// compact removes the blanks that the file has between the parts that are kept as
// text, so that they can be compared with what is encoded anew.
func (s *State) compact() {
	s.Hypervisor = compacted(s.Hypervisor)
	for i, r := range s.Resources {
		s.Resources[i].Attrs, s.Resources[i].Half = compacted(r.Attrs), compacted(r.Half)
	}
	for name, o := range s.Outputs {
		o.Value, o.Type = compacted(o.Value), compacted(o.Type)
		s.Outputs[name] = o
	}
}

func compacted(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil { // it was read a moment ago
		return raw
	}
	return slices.Clip(b.Bytes())
}
