package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/diag"
)

// parentsCheck is the check of the results that one adds blocks to.
func parentsCheck() Check {
	return Check{Name: "parents", What: "the results that this one adds blocks to, and that no block is there twice or missing", Unit: "runs"}
}

// alone is the report on a result whose parent is missing or changed: the rest of
// it rests on rows that are not at hand.
func (r Report) alone(ctx context.Context, dir string, cause error) (Report, error) {
	c := parentsCheck()
	for _, d := range diag.From(cause) {
		c.fail(artifact.ManifestFile, "", "%s", d.Detail)
	}
	c.Notes = append(c.Notes, "only this result's own numbers are checked; its verdicts rest on those of its parents, too")
	a, err := artifact.Open(dir)
	if err != nil {
		return Report{}, err
	}
	own, err := checkLinks(ctx, a)
	if err != nil {
		return Report{}, err
	}
	r.Dir, r.Checks = a.Dir(), append(append(r.Checks, c), own...)
	return r.filled(), nil
}

// checkParents compares the files of the parents with their manifests, whose hash
// the child has, and looks for blocks that are there twice or not at all.
func checkParents(ctx context.Context, a *artifact.Artifact) (Check, error) {
	c := parentsCheck()
	for _, link := range parentsOf(a) {
		problems, err := artifact.Verify(ctx, link.Dir())
		if err != nil {
			return c, err
		}
		for _, p := range problems {
			c.fail(beside(link, p.Path), "", "is %s", p.Kind)
		}
		if !link.Sealed() {
			c.fail(beside(link, artifact.ManifestFile), "", "the result was never sealed")
		}
	}
	c.Compared = len(a.Runs())
	blocks(&c, a.Runs(), a.Manifest().Partial == "")
	return c, nil
}

func parentsOf(a *artifact.Artifact) []*artifact.Artifact {
	links := a.Links()
	return links[:len(links)-1]
}

// beside is the path of a file of a parent, from the child's directory.
func beside(parent *artifact.Artifact, path string) string {
	return "../" + parent.Manifest().Run + "/" + path
}

// blocks checks that each treatment is there once in each block from the first to
// the last; whole says that none may be missing.
func blocks(c *Check, runs []artifact.Run, whole bool) {
	type cell struct {
		experiment, treatment string
		block                 int
	}
	seen, last := map[cell]string{}, map[string]int{}
	var treatments []cell // those of all blocks, in the order of their first run
	for _, r := range runs {
		at := cell{r.Experiment, r.TreatmentID, r.Block}
		if other := seen[at]; other != "" {
			c.fail(artifact.RunsFile, r.RunID, "treatment %s is in block %d already, as %s", r.TreatmentID, r.Block, other)
		}
		seen[at] = r.RunID
		last[r.Experiment] = max(last[r.Experiment], r.Block)
		if at.block = 0; !slices.Contains(treatments, at) {
			treatments = append(treatments, at)
		}
	}
	if !whole {
		return
	}
	for _, t := range treatments {
		for block := 1; block <= last[t.experiment]; block++ {
			if t.block = block; seen[t] == "" {
				c.fail(artifact.RunsFile, "", "experiment %s: block %d has no run of %s", t.experiment, block, t.treatment)
			}
		}
	}
}

// checkLinks examines the tables of a result and of each of its parents against
// the plan and the raw data that they have, and puts the findings together.
func checkLinks(ctx context.Context, a *artifact.Artifact) ([]Check, error) {
	var out []Check
	for _, link := range a.Links() {
		plan, planned, ports := checkPlan(link)
		runs, err := checkRuns(ctx, link, planned, ports)
		if err != nil {
			return nil, fmt.Errorf("result %s: %w", link.Dir(), err)
		}
		for _, c := range append([]Check{plan}, runs...) {
			if link.Dir() != a.Dir() {
				for i, p := range c.Problems {
					c.Problems[i].File = beside(link, p.File)
				}
			}
			out = joined(out, c)
		}
	}
	return out, nil
}

// joined adds a check to those of other results.
func joined(list []Check, c Check) []Check {
	i := slices.IndexFunc(list, func(o Check) bool { return o.Name == c.Name })
	if i < 0 {
		return append(list, c)
	}
	all := &list[i]
	all.Compared += c.Compared
	all.Problems = append(all.Problems, c.Problems...)
	for _, n := range c.Notes {
		if !slices.Contains(all.Notes, n) {
			all.Notes = append(all.Notes, n)
		}
	}
	return list
}
