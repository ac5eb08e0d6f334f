package operation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/version"
	"github.com/lvslab/lvslab/plan"
	"github.com/lvslab/lvslab/plan/planfile"
)

// savedInputs is what a saved plan keeps to be carried out without the files
// that it was made from.
type savedInputs struct {
	Path      string      `json:"path"`
	Source    lang.Source `json:"source"`
	Inputs    lang.Inputs `json:"inputs"`
	Choices   Choices     `json:"choices"`
	Study     string      `json:"study"`
	ImageHash string      `json:"image"`
}

// save writes the plan that was shown.
func (a *applying) save(path, topology string) error {
	in, err := a.inputs()
	if err != nil {
		return err
	}
	in.Environ = lang.OnlyVariables(in.Environ)
	raw, err := json.Marshal(savedInputs{
		Path: topology, Source: a.study.source, Inputs: in, Choices: a.opts.Choices, Study: a.list.hash, ImageHash: a.imagesHash(),
	})
	if err != nil {
		return fmt.Errorf("saved plan: %w", err)
	}
	trials, err := a.list.json()
	if err != nil {
		return err
	}
	st := a.state()
	err = planfile.Write(path, planfile.File{
		Lvslab: version.Version, Made: time.Now().UTC(), Lab: a.study.config.LabName(), Lineage: st.Lineage, Serial: st.Serial,
		Topology: a.topologyHash(), Plan: a.changes, Trials: trials, Images: a.imageDigests(),
		Teardown: string(a.study.topology.Lab.Teardown), Inputs: raw,
	})
	if err == nil {
		a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("\nThe plan is in %s. To carry out exactly that: lvslab apply %s", path, path)})
	}
	return err
}

// prepareSaved reads a saved plan and refuses it when the state has moved on.
func (s *Settings) prepareSaved(path string, o ApplyOptions) (*applying, error) {
	f, err := planfile.Read(path)
	if err != nil {
		return nil, err
	}
	var in savedInputs
	if err := json.Unmarshal(f.Inputs, &in); err != nil {
		return nil, diag.Fail(err, "Not a saved plan", "Make the plan again: lvslab plan --out FILE.", "%s", path)
	}
	if len(s.Variables) > 0 {
		return nil, diag.Fail(nil, "Variables belong to the plan", "Leave -var and -var-file out, or make another plan with them.",
			"%s was made with its own", path)
	}
	if len(o.Chosen) > 0 {
		flags := "--" + strings.Join(o.Chosen, ", --")
		return nil, diag.Fail(nil, "Choices belong to the plan", "Leave "+flags+" out, or make another plan: lvslab plan --out FILE.",
			"%s was made with its own", path)
	}
	in.Choices.Parallelism = o.Parallelism // says how, not what
	o.Choices = in.Choices
	o.AutoApprove = true // it was looked at when it was made
	s.pinned = &in.Inputs
	st, err := s.parseSource(in.Source, nil)
	if err != nil {
		return nil, err
	}
	a, err := s.prepareStudy(st, o)
	if err != nil {
		return nil, err
	}
	serial := a.prior.Serial
	lineage := a.prior.Lineage
	if serial == 0 {
		lineage = ""
	}
	if err := f.Check(version.Version, lineage, serial); err != nil {
		return nil, err
	}
	a.saved, a.savedStudy, a.savedImage, a.source = &f, in.Study, in.ImageHash, in.Path
	return a, nil
}

// asPlanned compares the plan that was just made with the saved one: what
// exists may have changed although the state has not.
func (a *applying) asPlanned() error {
	if a.saved == nil {
		return nil
	}
	again := "Make the plan again: lvslab plan --out FILE."
	if a.savedImage != "" && a.savedImage != a.imagesHash() || a.savedStudy != a.list.hash && a.savedImage != "" {
		return diag.Fail(nil, "The saved plan does not fit any more", again, "the guest image or the accelerator is another one than when it was made")
	}
	then, now := outline(a.saved.Plan), outline(a.changes)
	if !bytes.Equal(then, now) {
		return diag.Fail(nil, "The saved plan does not fit any more", again,
			"what exists has changed since it was made: it planned\n%s\nand now it would be\n%s", then, now)
	}
	return nil
}

// outline is a plan's actions, one a line.
func outline(p plan.Plan) []byte {
	var b bytes.Buffer
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s\n", c.Action, c.Addr)
	}
	return b.Bytes()
}
