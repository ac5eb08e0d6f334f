package operation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvslab/lvslab/internal/advise"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/lang"
)

// trialList is what the experiments of a topology ask for, in declared order.
type trialList struct {
	trials []experiment.Trial
	// hash identifies all of them together: another hash is another study.
	hash string
	// factors are the names that any experiment varies, in the order of their
	// first appearance: the factor columns of runs.csv.
	factors []string
	// squares is experiment → whether its blocks are rows of Williams squares.
	squares map[string]bool
}

// foundation is what trials are laid out upon: nothing when a study begins.
type foundation struct {
	// squares is experiment → whether its blocks are rows of Williams squares, of
	// those for which that is decided.
	squares map[string]bool
	done    map[string]int // experiment → blocks that parents have
	begun   map[string]int // experiment → last block that was begun
	after   int            // runs that parents have
}

// foundationOf is that of results which belong to one study: parents, and the rows
// that the result itself has already. head is its manifest.
func foundationOf(parents []*artifact.Artifact, head artifact.Manifest, own []artifact.Run) foundation {
	f := foundation{squares: map[string]bool{}, done: map[string]int{}, begun: map[string]int{}}
	for name, order := range head.BlockOrder {
		f.squares[name] = order == artifact.OrderSquares
	}
	for _, p := range parents {
		for _, r := range p.Runs() {
			f.done[r.Experiment] = max(f.done[r.Experiment], r.Block)
			f.after = max(f.after, r.Order)
		}
	}
	for _, r := range own {
		f.begun[r.Experiment] = max(f.begun[r.Experiment], r.Block)
	}
	return f
}

// trials expands all experiments of a study that begins.
func (st *study) trials(images []string, accelerator string) (trialList, error) {
	return st.lay(images, accelerator, foundation{})
}

// lay is [study.lay] with this apply's images and accelerator.
func (a *applying) lay(f foundation) (trialList, error) {
	return a.study.lay(a.digests(), string(a.accel), f)
}

// lay expands all experiments upon what is there already.
func (st *study) lay(images []string, accelerator string, f foundation) (trialList, error) {
	list := trialList{squares: map[string]bool{}}
	var ds diag.Diagnostics
	var hashes []string
	key := experiment.StudyKey{ImageDigests: images, Accelerator: accelerator, SchemaVersion: fmt.Sprint(artifact.SchemaVersion)}
	seen := map[string]bool{}
	for _, e := range st.topology.Experiments {
		treatments, more := experiment.Treatments(st.topology, e)
		if ds = append(ds, more...); more.HasErrors() {
			continue
		}
		name := e.Noun.Name()
		layout := experiment.Layout{Done: f.done[name], After: f.after + len(list.trials)}
		var decided bool
		if layout.Squares, decided = f.squares[name]; !decided {
			first := e.Iterations
			if layout.Done > 0 { // a result that does not say it was laid out by its blocks
				first = layout.Done
			}
			layout.Squares = experiment.Squares(first, len(treatments))
		}
		list.squares[name] = layout.Squares
		hashes = append(hashes, experiment.StudyHash(st.topology, e, key))
		e.Iterations = max(e.Iterations, f.begun[name]) // a block that was begun is finished
		list.trials = append(list.trials, experiment.Lay(e, treatments, layout)...)
		for _, f := range e.Factors {
			if !seen[f.Name] {
				seen[f.Name] = true
				list.factors = append(list.factors, f.Name)
			}
		}
	}
	list.hash = combine(hashes)
	return list, ds.Err()
}

// combine makes one hash of several, and is the hash itself for a single one.
func combine(hashes []string) string {
	if len(hashes) == 1 {
		return hashes[0]
	}
	return sha256Hex(strings.Join(hashes, "\n"))
}

// of returns the trials of one experiment.
func (l trialList) of(e lang.Experiment) []experiment.Trial { return trialsOf(l.trials, e) }

func trialsOf(list []experiment.Trial, e lang.Experiment) []experiment.Trial {
	var out []experiment.Trial
	for _, t := range list {
		if t.Experiment == e.Noun.Name() {
			out = append(out, t)
		}
	}
	return out
}

// describe says how the trials are made up: "10 treatments × 5 blocks".
func (l trialList) describe(t *lang.Topology) []string {
	var lines []string
	for _, e := range t.Experiments {
		mine := l.of(e)
		if len(mine) == 0 {
			continue
		}
		blocks := blocksOf(mine)
		n := len(mine) / len(blocks)
		last := blocks[len(blocks)-1]
		which := ""
		if len(blocks) < last {
			which = fmt.Sprintf(" (%s)", numbers(blocks))
		}
		what := fmt.Sprintf("%d treatments", n)
		compared := n - controlsOf(mine)
		if compared < n {
			what = fmt.Sprintf("(%d treatments + %d controls)", compared, n-compared)
		}
		line := fmt.Sprintf("%s: %d runs, %s × %d blocks%s on %s, %s from seed %d",
			e.Noun, len(mine), what, len(blocks), which, e.Service, experiment.Balanced(l.squares[e.Noun.Name()], last, n), e.Seed)
		if anew := experiment.Renewals(t, e); len(anew) > 0 {
			line += "; before each run " + nounsText(anew) + " made anew"
		}
		lines = append(lines, line)
		lines = append(lines, standing(e)...)
		lines = append(lines, foreignRules(t, e, mine)...)
		if text := advise.Detectable(compared, e.Iterations); text != "" {
			lines = append(lines, "  "+text)
		}
	}
	return lines
}

// standing says which treatments are not run and who stands for them; all of them
// are in plan.json.
func standing(e lang.Experiment) []string {
	const shown = 3
	var lines []string
	for _, first := range slices.Sorted(maps.Keys(e.StandsFor)) {
		others := e.StandsFor[first]
		text := strings.Join(others[:min(shown, len(others))], "; ")
		if more := len(others) - shown; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		lines = append(lines, fmt.Sprintf("  collapse: %s stands for %s", first, text))
	}
	return lines
}

// foreignRules names the kernels of the user's own whose runs stand for others: what
// is one treatment was found by the rules of Linux 6.1 and 6.12.
func foreignRules(t *lang.Topology, e lang.Experiment, trials []experiment.Trial) []string {
	if len(e.StandsFor) == 0 {
		return nil
	}
	svc, _ := t.Service(e.Service)
	director, _ := t.Machine(svc.Director)
	var lines []string
	for _, i := range t.Images {
		boots := func(r experiment.Trial) bool {
			return cmp.Or(r.Treatment.Setting.Kernel, director.Image.String()) == i.Noun.String()
		}
		if (i.OwnKernel() || i.Disk != "") && slices.ContainsFunc(trials, boots) {
			lines = append(lines, fmt.Sprintf("  collapse: by the rules of Linux 6.1 and 6.12; that the kernel of %s has the same is not known", i.Noun))
		}
	}
	return lines
}

// controlsOf counts the controls of a block: they are no part of the comparison.
func controlsOf(trials []experiment.Trial) int {
	ids := map[string]bool{}
	for _, t := range trials {
		if t.Treatment.Control() {
			ids[t.Treatment.ID] = true
		}
	}
	return len(ids)
}

// blocksOf lists the blocks of trials, in ascending order.
func blocksOf(trials []experiment.Trial) []int {
	var out []int
	for _, t := range trials {
		out = append(out, t.Block)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// numbers writes ascending numbers as 6–10, or as 1, 3, 5.
func numbers(list []int) string {
	first, last := list[0], list[len(list)-1]
	if len(list) > 1 && last-first == len(list)-1 {
		return fmt.Sprintf("%d–%d", first, last)
	}
	var words []string
	for _, n := range list {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ", ")
}

// json is the trials as a plan shows and pins them.
func (l trialList) json() (json.RawMessage, error) {
	return json.Marshal(struct {
		Study  string             `json:"study"`
		Trials []experiment.Trial `json:"trials"`
	}{l.hash, l.trials})
}
