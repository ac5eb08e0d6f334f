package operation

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/plan/state"
)

// What a sensitive variable put into a resource is not shown, neither by state show
// nor by show, and neither is a sensitive output; all else is.
func TestStateIsShownWithoutSecrets(t *testing.T) {
	t.Setenv("LVSLAB_REGISTRY", filepath.Join(t.TempDir(), "registry"))
	t.Chdir(t.TempDir())
	store, err := state.OpenOrCreate(t.Context(), filepath.Join(labsDir, "a"), "a", "lab.hcl", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(func(s *state.State) error {
		s.Hidden = []string{hiddenSum(s.Lineage, "say hush-hush")}
		s.Outputs = map[string]state.Output{
			"key":  {Value: json.RawMessage(`"hush-hush"`), Type: json.RawMessage(`"string"`), Sensitive: true},
			"open": {Value: json.RawMessage(`"plain"`), Type: json.RawMessage(`"string"`)},
		}
		attrs := json.RawMessage(`{"node": "client.c", "values": {"kernel.domainname": "say hush-hush", "other": "said"}}`)
		s.Put(state.Resource{Addr: addr.Resource{Noun: addr.N(addr.Client, "c"), Part: "sysctl"}, Type: "sysctl", Status: state.OK, Attrs: attrs, Half: attrs})
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func(*Settings) (Exit, error){
		"state show": func(s *Settings) (Exit, error) {
			return StateShow(t.Context(), s, StateOptions{Addresses: []string{"client.c"}})
		},
		"show": func(s *Settings) (Exit, error) { return Show(t.Context(), s, "a") },
	} {
		events := &reports{}
		if _, err := look(&Settings{Events: events}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(events.text, "hush") {
			t.Errorf("%s shows a secret: %s", name, events.text)
		}
		for _, want := range []string{maskedText, "said"} {
			if !strings.Contains(events.text, want) {
				t.Errorf("%s lacks %s: %s", name, want, events.text)
			}
		}
	}
}

type reports struct{ text string }

func (r *reports) Emit(e Event) {
	if e, ok := e.(ReportEvent); ok {
		r.text += e.Text + string(e.Data)
	}
}
