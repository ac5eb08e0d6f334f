package artifact

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseShare(t *testing.T) {
	for _, good := range []string{"1/1", "2/3", "10/10"} {
		if s, err := ParseShare(good); err != nil || s.String() != good {
			t.Errorf("%s: %v, %v", good, s, err)
		}
	}
	for _, bad := range []string{"0/2", "3/2", "1", "1/", "/2", "1/2/3", "-1/2", "01/2", "+1/2", "1/2 ", "a/b"} {
		if s, err := ParseShare(bad); err == nil || !strings.Contains(err.Error(), "a share is i/n") {
			t.Errorf("%q: %v, %v", bad, s, err)
		}
	}
	if s, err := ParseShare(""); err != nil || s != (Share{}) || !s.Has(7) {
		t.Errorf("all: %v, %v", s, err)
	}
	var kept struct {
		Shard Share `json:"shard,omitzero"`
	}
	if err := json.Unmarshal([]byte(`{"shard":"2/3"}`), &kept); err != nil || kept.Shard != (Share{2, 3}) {
		t.Errorf("%v, %v", kept, err)
	}
	if text, err := json.Marshal(kept); err != nil || string(text) != `{"shard":"2/3"}` {
		t.Errorf("%s, %v", text, err)
	}
}
