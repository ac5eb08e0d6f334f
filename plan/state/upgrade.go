package state

import (
	"encoding/json"
	"fmt"
)

// upgrades turn a state of the format that is the key into one of the next
// format. They work on the parsed text, as the types of old formats are gone.
//
// The file itself stays as it was until something changes; then it is kept among
// the backups, as every state that an operation finds.
var upgrades = map[int]func(doc map[string]json.RawMessage) error{
	// Format 2 added identities, and half_updated to resources. Nothing is missing in a state of
	// format 1, but an lvslab that knows only that would drop them, and
	// with them what an interrupted update has left in a guest.
	1: func(map[string]json.RawMessage) error { return nil },
}

// upgrade brings a state's text from that format to [Version].
func upgrade(b []byte, from int) ([]byte, error) {
	if from == Version {
		return b, nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	for v := from; v < Version; v++ {
		up, known := upgrades[v]
		if !known {
			return nil, fmt.Errorf("the format version %d is none", v)
		}
		if err := up(doc); err != nil {
			return nil, fmt.Errorf("upgrade from format %d: %w", v, err)
		}
	}
	doc["version"] = json.RawMessage(fmt.Sprint(Version))
	return json.Marshal(doc)
}
