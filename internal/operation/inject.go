package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/symptom"
	"github.com/lvslab/lvslab/plan/state"
)

const (
	// stepWithin bounds one script in a guest. The longest waits 20 s by itself.
	stepWithin = 40 * time.Second
	// takeBackWithin bounds the way back to a healthy lab, also after Ctrl-C.
	takeBackWithin = 2 * time.Minute
)

// injection is what became of one planted symptom.
type injection struct {
	Symptom  symptom.Name      `json:"symptom"`
	At       string            `json:"at"`
	Findings []symptom.Finding `json:"findings"`
	Named    bool              `json:"named"` // it, at its place, and nothing else
}

// inject plants symptoms one after the other on a healthy lab, looks whether each
// is named, and takes each back. At last the lab must be healthy again.
func (a *applying) inject(ctx context.Context, names []symptom.Name) (Exit, error) {
	if err := a.healthy(ctx, "Nothing was planted", "Mend what is named, then plant again."); err != nil {
		return ExitError, err
	}
	exit := ExitDone
	done := []injection{}
	for _, name := range names {
		in, err := a.injectOne(ctx, name)
		if err != nil {
			return ExitError, err
		}
		done = append(done, in)
		if !in.Named {
			exit = ExitCheckFailed
		}
	}
	if err := a.healthy(ctx, "The lab is not healthy after all was taken back", "Repair it with 'lvslab apply --keep "+a.source+"'."); err != nil {
		return ExitError, err
	}
	raw, err := json.Marshal(done)
	if err != nil {
		return ExitError, err
	}
	a.Events.Emit(ReportEvent{Kind: "injections", Text: injectionsText(done), Data: raw})
	return exit, nil
}

// healthy is nil when a look finds nothing.
func (a *applying) healthy(ctx context.Context, summary, remedy string) error {
	seen, err := a.diagnose(ctx)
	if err != nil || len(seen.Findings) == 0 {
		return err
	}
	return diag.Fail(nil, summary, remedy, "this is wrong with the lab:\n%s", seen.text())
}

func (a *applying) injectOne(ctx context.Context, name symptom.Name) (in injection, err error) {
	site, err := experiment.Site(ctx, a.lab(), a.study.topology.Services[0].Noun)
	if err != nil {
		return in, err
	}
	plant, err := site.Plant(name)
	if err != nil {
		return in, err
	}
	in = injection{Symptom: name, At: plant.At.String()}
	data, err := json.Marshal(plant)
	if err != nil {
		return in, err
	}
	seq, err := a.store.Begin(state.Intent{Op: opPlant, Subject: plant.At.String(), Data: data})
	if err != nil {
		return in, err
	}
	defer func() {
		// The lab is given back also when the user has enough of it.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackWithin)
		defer cancel()
		failed := a.takeBack(back, plant)
		if failed == nil {
			failed = a.store.End(seq, nil)
		}
		err = errors.Join(err, failed)
	}()
	a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("planting %s: %s: %s\n%s", name, plant.At, plant.Says, stepsText(plant.Do))})
	if err := a.carry(ctx, plant.Do); err != nil {
		return in, err
	}
	seen, err := a.diagnose(ctx)
	if err != nil {
		return in, err
	}
	in.Findings, in.Named = seen.Findings, plant.Named(seen.Findings)
	a.Events.Emit(NoticeEvent{Text: seen.text() + "\ntaking it back:\n" + stepsText(plant.Undo)})
	return in, nil
}

// takeBack undoes what was planted.
func (a *applying) takeBack(ctx context.Context, p symptom.Plant) error {
	err := a.carry(ctx, p.Undo)
	if p.GiveBack {
		err = errors.Join(err, a.giveBackServices(ctx, p.At))
	}
	if err == nil {
		return nil
	}
	f := diag.Fail(err, "What was planted was not taken back",
		"Apply again: it takes back what is left, and repairs what has drifted.", "%s on %s", p.Symptom, p.At)
	f.Diagnostic = f.Diagnostic.For(p.At.String())
	return f
}

// giveBackServices makes the declared services of a director anew.
func (a *applying) giveBackServices(ctx context.Context, director addr.Noun) error {
	for _, svc := range a.study.topology.Services {
		if svc.Director == director {
			loan, err := experiment.Borrow(a.study.topology, svc.Noun, svc.Noun)
			if err != nil {
				return err
			}
			return loan.GiveBack(ctx, a.lab())
		}
	}
	return nil
}

// takeBackPlants undoes what a command that was killed had planted. What can't be
// undone, for its machine is gone, went with it; the refresh sees the rest.
func (a *applying) takeBackPlants(ctx context.Context) error {
	defer a.shutDoors()
	for _, in := range a.store.Pending() {
		if in.Op != opPlant {
			continue
		}
		var p symptom.Plant
		if err := json.Unmarshal(in.Data, &p); err != nil {
			return fmt.Errorf("planted symptom in the journal: %w", err)
		}
		if a.host != nil && a.stands(ctx, p.At) {
			text := fmt.Sprintf("%s had been planted on %s when its command was ended, and is taken back.", p.Symptom, p.At)
			bounded, cancel := context.WithTimeout(ctx, takeBackWithin)
			if err := a.takeBack(bounded, p); err != nil {
				text = fmt.Sprintf("%s had been planted on %s when its command was ended: %v", p.Symptom, p.At, err)
			}
			cancel()
			a.Events.Emit(NoticeEvent{Text: text})
		}
		if err := a.store.End(in.Seq, nil); err != nil {
			return err
		}
	}
	return nil
}

// carry runs scripts in guests, one after the other. The first that fails ends it.
func (a *applying) carry(ctx context.Context, steps []symptom.Step) error {
	for _, s := range steps {
		if err := a.script(ctx, s); err != nil {
			f := diag.Fail(err, "A script in a guest failed", "Try it by hand: it needs sh, ip, sysctl, dig, ss, ipvsadm and nft of the guest's image.", "%s", s.Script)
			f.Diagnostic = f.Diagnostic.For(s.Machine.String())
			return f
		}
	}
	return nil
}

// script runs one script in a guest through a user port.
func (a *applying) script(ctx context.Context, s symptom.Step) error {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	conn, err := a.door(ctx, s.Machine.String())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	code, err := conn.Run(ctx, client.Command{Args: []string{"sh", "-ec", s.Script}, Stdout: &out, Stderr: &out})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(out.String()))
	} else if err != nil {
		a.shutDoor(s.Machine.String()) // the way back may have better luck with another
	}
	return err
}

// door is a connection to a machine's user port, kept for the next script: under
// emulation a new one takes longer than the script.
type door struct {
	conn    *client.Conn
	release func()
}

func (a *applying) door(ctx context.Context, node string) (*client.Conn, error) {
	if d, open := a.doors[node]; open {
		return d.conn, nil
	}
	l := lab{dir: a.dir, state: a.state()}
	machine, err := l.machine(node)
	if err != nil {
		return nil, err
	}
	conn, release, err := l.dialUser(ctx, node, machine, "lvslab doctor")
	if err != nil {
		return nil, err
	}
	if a.doors == nil {
		a.doors = map[string]door{}
	}
	a.doors[node] = door{conn, release}
	return conn, nil
}

func (a *applying) shutDoor(node string) {
	if d, open := a.doors[node]; open {
		d.release()
		delete(a.doors, node)
	}
}

func (a *applying) shutDoors() {
	for node := range a.doors {
		a.shutDoor(node)
	}
}

// stepsText shows steps as commands that a user could type.
func stepsText(steps []symptom.Step) string {
	var b strings.Builder
	for _, s := range steps {
		for line := range strings.SplitSeq(s.Script, "\n") {
			fmt.Fprintf(&b, "  %s# %s\n", s.Machine, line)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func injectionsText(done []injection) string {
	var b strings.Builder
	for _, in := range done {
		verdict := "named"
		if !in.Named {
			var got []string
			for _, n := range symptom.Names(in.Findings) {
				got = append(got, string(n))
			}
			slices.Sort(got)
			verdict = "NOT named: nothing was found"
			if len(got) > 0 {
				verdict = "NOT named, or not alone: found " + strings.Join(got, ", ")
			}
		}
		fmt.Fprintf(&b, "%-14s %-20s %s\n", in.Symptom, in.At, verdict)
	}
	b.WriteString("The lab is healthy again.")
	return b.String()
}
