package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/addr"
	"github.com/lvslab/lvslab/internal/agent/binary"
	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/lang"
	"github.com/lvslab/lvslab/internal/lower"
	"github.com/lvslab/lvslab/provider/schema"
)

// guestKind is one image that machines of the lab boot.
type guestKind struct {
	// block is the image block, the zero noun for the built-in image; server the
	// name server in the place of BIND, "" for BIND.
	block  addr.Noun
	server string
	recipe images.Recipe
	image  guestImage // without a key while it is not in the cache
	// disk is a disk of the user's, which has no recipe; nil for all others. seed is
	// what cloud-init reads beside it.
	disk *images.Disk
	seed string
}

// name is how the artifact calls the guest: the same for two kernels that one
// block had, so that what differs is its digest.
func (g guestKind) name() string {
	switch {
	case g.block.IsZero():
		return g.recipe.Name
	case g.server != "":
		return g.block.String() + "+" + g.server
	}
	return g.block.String()
}

// bootedGuests lists what the machines boot, the directors' first: IPVS runs in
// it, so its kernel is the one that counts. Last come those that a director boots
// for runs alone.
func bootedGuests(t *lang.Topology) []lang.Guest {
	var out []lang.Guest
	for _, directors := range []bool{true, false} {
		for _, m := range t.Machines {
			if (m.Noun.Kind == addr.Director) == directors && !slices.Contains(out, m.Guest()) {
				out = append(out, m.Guest())
			}
		}
	}
	if len(out) == 0 {
		out = append(out, lang.Guest{})
	}
	for _, e := range t.Experiments {
		for _, n := range e.Kernels() {
			if g := (lang.Guest{Image: n}); !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// guestsOf returns the guests of a topology, without their images.
func guestsOf(t *lang.Topology) ([]guestKind, error) {
	var out []guestKind
	for _, n := range bootedGuests(t) {
		g := guestKind{block: n.Image, server: n.Server, recipe: images.Debian12}
		i, ok := t.ImageNamed(n.Image)
		if ok && i.Disk != "" { // what is on it, name servers too, is its owner's
			g.recipe = images.Recipe{}
			out = append(out, g)
			continue
		}
		var err error
		if ok {
			if g.recipe, err = recipeOf(i); err != nil {
				return nil, at(err, t.Place(n.Image, "kernel", i.Range), n.Image)
			}
		}
		if g.recipe, err = g.recipe.WithServer(n.Server); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// readKernel bounds the reading of an own kernel's modules: some hundred files.
const readKernel = time.Minute

// recipeOf returns how the guest of an image block is made. Paths count from the
// directory of the file that names them.
func recipeOf(i lang.Image) (images.Recipe, error) {
	if !i.OwnKernel() {
		return images.ForKernel(i.Kernel)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readKernel)
	defer cancel()
	return images.ForOwnKernel(ctx, fromHere(i, i.Kernel), fromHere(i, i.Modules), fromHere(i, i.Initrd))
}

// at lets a failure point to where the topology says what failed.
func at(err error, r diag.Range, n addr.Noun) error {
	ds := diag.From(err)
	for i := range ds {
		ds[i] = ds[i].At(r).For(n.String())
	}
	return ds.Err()
}

// prepareGuests builds the images that are not in the cache, and puts the agent
// on top of their initramfs. It returns a phrase about them.
func (a *applying) prepareGuests(ctx context.Context) (string, error) {
	list, err := guestsOf(a.study.topology)
	if err != nil {
		return "", err
	}
	var phrases []string
	for i := range list {
		g := &list[i]
		var how string
		if err = a.openDisk(ctx, g); err != nil {
			return "", err
		}
		if g.disk != nil {
			how, err = a.prepareDisk(ctx, g)
		} else {
			g.image, how, err = a.prepareImage(ctx, g.recipe, a.cache)
		}
		if err != nil {
			return "", a.atImage(err, g.block)
		}
		if !slices.Contains(phrases, how) {
			phrases = append(phrases, how)
		}
	}
	a.setGuests(list)
	return strings.Join(phrases, "; "), nil
}

// atImage lets what is wrong with an image point to its block, and leaves all else
// of the error as it is: an interrupt stays one.
func (a *applying) atImage(err error, block addr.Noun) error {
	var f *diag.Failure
	i, ok := a.study.topology.ImageNamed(block)
	if ok && errors.As(err, &f) && f.Diagnostic.Subject == nil {
		name := "kernel"
		if i.Disk != "" {
			name = "disk"
		}
		f.Diagnostic = f.Diagnostic.At(a.study.topology.Place(block, name, i.Range)).For(block.String())
	}
	return err
}

// cachedGuests is prepareGuests without an effect: what is not in the cache is
// not built, it is only said that it would be.
func (a *applying) cachedGuests(ctx context.Context) error {
	list, err := guestsOf(a.study.topology)
	if err != nil {
		return err
	}
	for i := range list {
		g := &list[i]
		if err := a.openDisk(ctx, g); err != nil {
			return err
		}
		if g.disk != nil {
			continue
		}
		img, ok, err := images.Cached(g.recipe, a.cache)
		if err != nil {
			return err
		}
		if !ok {
			a.Events.Emit(NoticeEvent{Text: fmt.Sprintf("The guest image %sis not in the cache; apply builds it first (about 20 s).", g.quoted())})
		}
		g.image = guestImage{Image: img}
		if agent, err := binary.Sum(); ok && err == nil {
			g.image.withAgent = images.InitrdPath(img, agent, a.cache)
		}
	}
	a.setGuests(list)
	return nil
}

// quoted names the image in a sentence, unless it is the built-in one.
func (g guestKind) quoted() string {
	if g.key() == (lang.Guest{}) {
		return ""
	}
	return "of " + g.name() + " "
}

func (g guestKind) key() lang.Guest { return lang.Guest{Image: g.block, Server: g.server} }

func (a *applying) setGuests(list []guestKind) {
	a.guests, a.image, a.study.kernels = list, list[0].image, rules(list)
}

// guestOf returns what a machine boots.
func (a *applying) guestOf(m lang.Machine) guestKind { return a.guestBy(m.Guest()) }

// guestIn returns the guest of an image block with BIND, the zero noun for the
// built-in one.
func (a *applying) guestIn(image addr.Noun) guestKind { return a.guestBy(lang.Guest{Image: image}) }

func (a *applying) guestBy(k lang.Guest) guestKind {
	for _, g := range a.guests {
		if g.key() == k {
			return g
		}
	}
	return guestKind{block: k.Image, server: k.Server}
}

// imageOf returns the image of a domain, known by the files that it boots.
func (a *applying) imageOf(d schema.Domain) guestImage {
	for _, g := range a.guests {
		if a.shipment.there(g.image.Root) == d.Root {
			return g.image
		}
	}
	return a.image
}

// digests identify the images for a study. That of the built-in image stands
// for itself, so that blocks which nobody boots change nothing.
func (a *applying) digests() []string {
	var out []string
	for _, g := range a.guests {
		if g.key() == (lang.Guest{}) {
			out = append(out, g.image.Digest)
		} else {
			out = append(out, g.name()+"="+g.image.Digest)
		}
	}
	return out
}

// imagesHash is one text for all images: the digest itself when there is one.
func (a *applying) imagesHash() string {
	if len(a.guests) == 1 {
		return a.guests[0].image.Digest
	}
	return combine(a.digests())
}

// imageDigests are the digests by name, for manifest and plan file.
func (a *applying) imageDigests() map[string]string {
	out := map[string]string{}
	for _, g := range a.guests {
		out[g.name()] = g.image.Digest
	}
	return out
}

// kernels are the releases by image, nil when all machines run one.
func (a *applying) kernels() map[string]string {
	if len(a.guests) < 2 {
		return nil
	}
	out := map[string]string{}
	for _, g := range a.guests {
		out[g.name()] = g.image.KernelRelease
	}
	return out
}

// missingGuests is how many images have to be built.
func (a *applying) missingGuests() (n int) {
	for _, g := range a.guests {
		if g.image.Key == "" {
			n++
		}
	}
	return n
}

// kernelText says which kernel a machine with an image block runs, and which name
// server in the place of BIND, for a plan.
func (a *applying) kernelText(m lang.Machine) string {
	g := a.guestOf(m)
	server := ""
	if m.Server != "" {
		server = ", " + m.Server
	}
	switch {
	case m.Image.IsZero():
		return server
	case g.image.Key == "":
		return ", " + m.Image.String() + server
	case g.disk != nil:
		return ", " + g.image.Name + g.linux() + server
	}
	return ", Linux " + g.image.KernelRelease + server
}

func (a *applying) lowering() lower.Options {
	o := lower.Options{LabDir: a.dir, KernelArgs: images.KernelArgs, Accelerator: string(a.accel), Guests: map[lang.Guest]lower.Guest{}}
	if a.far() {
		o.LabDir = farLabDir(a.state().Lineage)
	}
	for _, g := range a.guests {
		o.Guests[g.key()] = lower.Guest{Kernel: a.shipment.there(g.image.Kernel), Initrd: a.shipment.there(g.image.withAgent), Root: a.shipment.there(g.image.Root)}
		if g.disk != nil {
			o.Guests[g.key()] = lower.Guest{Disk: g.disk.Path, DiskFormat: g.disk.Format, DiskSum: g.disk.Sum, Seed: g.seed}
		}
	}
	return o
}

// prepareImage builds an image unless it is cached, and puts the agent on top of
// its initramfs. It returns a phrase about it.
func (s *Settings) prepareImage(ctx context.Context, recipe images.Recipe, cache string) (guestImage, string, error) {
	s.phase(PhaseImage, "started", recipe.Name)
	began := time.Now()
	built := false
	img, err := images.Build(ctx, recipe, images.Options{CacheDir: cache, Progress: func(step string) {
		built = true
		s.phase(PhaseImage, "progress", recipe.Name+": "+step)
	}})
	if err != nil {
		return guestImage{}, "", err
	}
	initrd, err := initrdOf(ctx, img, cache)
	if err != nil {
		return guestImage{}, "", err
	}
	how := "cached"
	if built {
		how = fmt.Sprintf("built in %.1f s", time.Since(began).Seconds())
	}
	return guestImage{img, initrd}, fmt.Sprintf("%s %s, Linux %s (%s)", img.Name, img.Key, img.KernelRelease, how), nil
}
