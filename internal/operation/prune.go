package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/plan/state"
)

// ImagePruneOptions are the flags of lvslab image prune.
type ImagePruneOptions struct {
	DryRun bool
	// UnusedFor takes images in that were not used for so long, 0 = none.
	UnusedFor time.Duration
}

// ImagePrune removes from the cache what no recipe of this lvslab leads to, but
// nothing that a running lab uses.
func ImagePrune(ctx context.Context, s *Settings, o ImagePruneOptions) (Exit, error) {
	cache, err := images.DefaultCacheDir()
	if err != nil {
		return ExitError, err
	}
	agent, err := binary.Sum()
	if err != nil {
		return ExitError, err
	}
	using, err := filesInUse(ctx)
	if err != nil {
		return ExitError, err
	}
	list, failed := images.Prune(ctx, cache, images.PruneOptions{
		Agent: agent, Using: using, UnusedFor: o.UnusedFor, DryRun: o.DryRun,
		Progress: func(step string) { s.phase(PhaseImage, "progress", step) },
	})
	if err := s.showPruned(list, o.DryRun); err != nil {
		return ExitError, err
	}
	if failed != nil {
		return ExitError, diag.Fail(failed, "Not everything was removed", "Remove it as the user it belongs to.", "%s", cache)
	}
	return ExitDone, nil
}

// filesInUse returns what tells by name the running lab that needs a file, or one
// below a directory. A lab is asked by its state: machines have read their initramfs
// and closed it, and need it again when they are made anew.
func filesInUse(ctx context.Context) (func(path string) string, error) {
	here, elsewhere, err := labDirs(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for i, dir := range append(elsewhere, here...) {
		st, err := state.Read(dir)
		if err != nil {
			return nil, diag.Fail(err, "Cannot tell what a lab uses", "Run the command as the user whose lab it is, or take the lab down.", "nothing is removed while the state in %s cannot be read", dir)
		}
		if _, foreign := foreignURI(st); i >= len(elsewhere) && !foreign {
			if h, err := findHolder(ctx, st.Lineage); err == nil && h == nil {
				continue // it is down; when that is not known it is taken for up
			}
		}
		raw, err := json.Marshal(st.Resources)
		if err != nil {
			return nil, err
		}
		var all any
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
		eachPath(all, func(path string) { files[path] = st.Lab })
	}
	return func(path string) string {
		for file, lab := range files {
			if file == path || strings.HasPrefix(file, path+string(filepath.Separator)) {
				return lab
			}
		}
		return ""
	}, nil
}

// eachPath calls fn for each absolute path in a value of JSON.
func eachPath(v any, fn func(string)) {
	switch v := v.(type) {
	case string:
		if filepath.IsAbs(v) {
			fn(filepath.Clean(v))
		}
	case []any:
		for _, e := range v {
			eachPath(e, fn)
		}
	case map[string]any:
		for _, e := range v {
			eachPath(e, fn)
		}
	}
}

func (s *Settings) showPruned(list []images.Stale, dryRun bool) error {
	var b strings.Builder
	var size int64
	n, wide := 0, 4
	for _, one := range list {
		wide = max(wide, len(one.Name))
	}
	for _, one := range list {
		why := one.Why
		if one.Kept == "" {
			n, size = n+1, size+one.Size
		} else {
			why += "; kept: " + one.Kept
		}
		fmt.Fprintf(&b, "%-10s  %-*s  %6.1f MB  %s\n", one.Kind, wide, one.Name, float64(one.Size)/1e6, why)
	}
	switch done := map[bool]string{false: "Removed", true: "Would remove"}[dryRun]; {
	case n == 0 && len(list) == 0:
		b.WriteString("Nothing in the cache is stale.")
	case n == 0:
		b.WriteString("Nothing is removed.")
	default:
		fmt.Fprintf(&b, "%s %s, %.1f MB.", done, count(n, "item"), float64(size)/1e6)
	}
	raw, err := json.Marshal(struct {
		DryRun  bool           `json:"dry_run"`
		Removed int            `json:"removed"`
		Size    int64          `json:"size"`
		Stale   []images.Stale `json:"stale"`
	}{dryRun, n, size, orNone(list)})
	if err != nil {
		return err
	}
	s.Events.Emit(ReportEvent{Kind: "pruned", Text: b.String(), Data: raw})
	return nil
}
