package artifact

import (
	"bytes"
	"encoding/csv"
	"testing"

	"github.com/lvslab/lvslab/internal/load"
)

func TestEveryColumnOfQueriesIsDescribed(t *testing.T) {
	var b bytes.Buffer
	must(t, load.WriteQueries(&b, nil))
	head, err := csv.NewReader(&b).Read()
	must(t, err)
	for _, name := range head {
		if f, ok := queryFields[name]; !ok || f.Description == "" || f.Type == "" {
			t.Errorf("column %s of %s is not described", name, QueriesFile)
		}
	}
	if len(head) != len(queryFields) {
		t.Errorf("%d columns, %d described", len(head), len(queryFields))
	}
}
