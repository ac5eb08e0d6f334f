package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/plan/state"
	"github.com/lvslab/lvslab/topologies"
)

// Init writes a builtin topology to a file that is not there yet; without a name
// it lists them. file may be empty: NAME.hcl.
func Init(s *Settings, name, file string) (Exit, error) {
	if name == "" {
		return listBuiltins(s)
	}
	text, ok := topologies.Get(name)
	if !ok {
		return ExitError, diag.Fail(nil, "No such topology", "Use one of "+strings.Join(topologies.Names(), ", ")+".", "there is no builtin topology %q", name)
	}
	if file == "" {
		file = name + lang.Extension
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return ExitError, diag.Fail(err, "The file exists", "Name another one with --out.", "%s is there, and is left as it is", file)
	}
	if err != nil {
		return ExitError, diag.Fail(err, "Cannot write the topology", "Name a file in a directory that exists with --out.", "%v", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return ExitError, errors.Join(err, os.Remove(file))
	}
	s.Events.Emit(ReportEvent{Kind: "init", Text: fmt.Sprintf("Wrote %s. Look at what it does with: lvslab plan %s", file, file), Data: mustJSON(map[string]string{"file": file})})
	return ExitDone, nil
}

// builtin is one line of the list.
type builtin struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func listBuiltins(s *Settings) (Exit, error) {
	var list []builtin
	width := 0
	for _, name := range topologies.Names() {
		st, err := s.parse(builtinPrefix + name)
		if err == nil {
			err = s.resolve(st, state.State{Lineage: "none"})
		}
		if err != nil {
			return ExitError, err
		}
		list = append(list, builtin{name, st.topology.Lab.Description})
		width = max(width, len(name))
	}
	var text strings.Builder
	for _, b := range list {
		fmt.Fprintf(&text, "%-*s  %s\n", width, b.Name, b.Description)
	}
	text.WriteString("\nUse one as builtin:NAME, or write it to a file with: lvslab init NAME")
	s.Events.Emit(ReportEvent{Kind: "init", Text: text.String(), Data: mustJSON(list)})
	return ExitDone, nil
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings only
	}
	return b
}
