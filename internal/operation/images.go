package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/hypervisor"
	"github.com/lvslab/lvslab/plan/state"
)

// guestImage is an image with the agent of this lvslab on top.
type guestImage struct {
	images.Image
	withAgent string // path of the initramfs that ends with the agent
}

// initrdOf returns the image's initramfs with this program's agent.
func initrdOf(ctx context.Context, img images.Image, cache string) (string, error) {
	sum, err := binary.Sum()
	if err != nil {
		return "", err
	}
	if initrd, ok := images.CachedInitrd(img, sum, cache); ok {
		return initrd, nil
	}
	agent, err := binary.Bytes()
	if err != nil {
		return "", err
	}
	return images.InitrdWithAgent(ctx, img, agent, cache)
}

// ImageBuild builds the guest image with the usual kernel or that of a Debian
// package, looking for newer packages with refresh.
func ImageBuild(ctx context.Context, s *Settings, kernel string, refresh bool) (Exit, error) {
	recipe, err := images.ForKernel(kernel)
	if err != nil {
		return ExitError, err
	}
	img, err := images.Build(ctx, recipe, images.Options{Refresh: refresh, Progress: func(step string) {
		s.phase(PhaseImage, "progress", step)
	}})
	if err != nil {
		return ExitError, err
	}
	return ExitDone, s.showImages([]images.Image{img})
}

// ImageList lists the cache.
func ImageList(_ context.Context, s *Settings) (Exit, error) {
	cache, err := images.DefaultCacheDir()
	if err != nil {
		return ExitError, err
	}
	list, err := images.List(cache)
	if err != nil {
		return ExitError, err
	}
	if err := s.showImages(list); err != nil {
		return ExitError, err
	}
	templates, err := images.Templates(cache)
	if err != nil {
		return ExitError, err
	}
	return ExitDone, s.showTemplates(templates)
}

// ImageKey prints one word for the recipes of the images that a topology's
// machines boot, of the built-in one without a topology: what a cache of images
// is to be kept under. It builds nothing.
func ImageKey(_ context.Context, s *Settings, path string) (Exit, error) {
	guests := []guestKind{{recipe: images.Debian12}}
	if path != "" {
		st, err := s.parse(path)
		if err == nil {
			err = s.resolve(st, state.State{Lineage: state.NewLineage()})
		}
		if err == nil {
			guests, err = guestsOf(st.topology)
		}
		if err != nil {
			return ExitError, err
		}
	}
	key := recipesKey(guests)
	raw, err := json.Marshal(key)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "image key", Text: key, Data: raw})
	return ExitDone, nil
}

// recipesKey is the same for the same images, whatever their blocks are called.
func recipesKey(guests []guestKind) string {
	var digests []string
	for _, g := range guests {
		if g.recipe.Name == "" { // a disk of the user's
			continue
		}
		digests = append(digests, g.recipe.Digest())
	}
	slices.Sort(digests)
	return combine(slices.Compact(digests))[:16]
}

// ImageRemove removes one image from the cache.
func ImageRemove(ctx context.Context, s *Settings, key string) (Exit, error) {
	cache, err := images.DefaultCacheDir()
	if err != nil {
		return ExitError, err
	}
	if err := images.Remove(ctx, cache, key); err != nil {
		return ExitError, err
	}
	s.Events.Emit(NoticeEvent{Text: "Removed image " + key + "."})
	return ExitDone, nil
}

func (s *Settings) showImages(list []images.Image) error {
	var b strings.Builder
	wide := 10
	for _, img := range list {
		wide = max(wide, len(img.Name))
	}
	fmt.Fprintf(&b, "%-16s  %-*s  %-28s  %9s  %s\n", "KEY", wide, "NAME", "KERNEL", "SIZE", "CREATED")
	for _, img := range list {
		fmt.Fprintf(&b, "%-16s  %-*s  %-28s  %6.1f MB  %s\n", img.Key, wide, img.Name, img.KernelRelease, float64(img.Size)/1e6, img.Created.Format("2006-01-02 15:04"))
	}
	if len(list) == 0 {
		b.Reset()
		b.WriteString("No images. 'lvslab image build' makes one, and apply does so by itself.")
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	s.Events.Emit(ReportEvent{Kind: "images", Text: strings.TrimRight(b.String(), "\n"), Data: raw})
	return nil
}

// showTemplates lists the machines that clones are made of.
func (s *Settings) showTemplates(list []images.Template) error {
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-16s  %-16s  %8s  %-7s  %-11s  %9s  %s\n", "TEMPLATE", "IMAGE", "MEMORY", "RUNNING", "ACCELERATOR", "SIZE", "AGE")
	for _, t := range list {
		fmt.Fprintf(&b, "%-16s  %-16s  %4d MiB  %-7s  %-11s  %6.1f MB  %s\n", t.Key, t.Image, t.Memory>>20, t.Running, t.Accelerator, float64(t.Size)/1e6, age(time.Since(t.Created)))
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	s.Events.Emit(ReportEvent{Kind: "templates", Text: strings.TrimRight(b.String(), "\n"), Data: raw})
	return nil
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// Doctor checks the machine. It fails when a check does.
func Doctor(ctx context.Context, s *Settings) (Exit, error) {
	cache, err := images.DefaultCacheDir()
	if err != nil {
		return ExitError, err
	}
	o := hypervisor.DoctorOptions{CacheDir: cache}
	if list, err := images.List(cache); err == nil && len(list) > 0 {
		o.KernelPath = list[len(list)-1].Kernel
	}
	checks := hypervisor.Doctor(ctx, o)
	if err := images.Preflight(images.Debian12, cache); err != nil {
		checks = append(checks, hypervisor.Check{Name: "image build", Level: hypervisor.Warn, Detail: err.Error(), Remedy: "Install what is named; a cached image needs nothing."})
	} else {
		checks = append(checks, hypervisor.Check{Name: "image build", Level: hypervisor.OK, Detail: "tools, package sources and space are there"})
	}
	exit := ExitDone
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "%-4s  %-24s  %s\n", c.Level, c.Name, c.Detail)
		if c.Remedy != "" {
			fmt.Fprintf(&b, "      → %s\n", c.Remedy)
		}
		if c.Level == hypervisor.Fail {
			exit = ExitError
		}
	}
	raw, err := json.Marshal(checks)
	if err != nil {
		return ExitError, err
	}
	s.Events.Emit(ReportEvent{Kind: "doctor", Text: strings.TrimRight(b.String(), "\n"), Data: raw})
	return exit, nil
}
