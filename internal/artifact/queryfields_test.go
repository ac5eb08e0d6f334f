package artifact

import (
	"bytes"
	"encoding/csv"
	"testing"

	"github.com/lvslab/lvslab/internal/load"
)

func TestEveryColumnOfRawTablesIsDescribed(t *testing.T) {
	for _, table := range rawTables {
		var b bytes.Buffer
		switch table.file {
		case QueriesFile:
			must(t, load.WriteQueries(&b, nil))
		case ClientsFile:
			must(t, load.WriteClients(&b, nil))
		default:
			must(t, load.WriteRecord(&b, nil))
		}
		head, err := csv.NewReader(&b).Read()
		must(t, err)
		for _, name := range head {
			if f, ok := table.fields[name]; !ok || f.Description == "" || f.Type == "" {
				t.Errorf("column %s of %s is not described", name, table.file)
			}
		}
		if len(head) != len(table.fields) {
			t.Errorf("%s: %d columns, %d described", table.file, len(head), len(table.fields))
		}
	}
}
