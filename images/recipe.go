package images

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"
)

// builderVersion is part of every recipe's digest. It grows when this package
// would make other bytes from the same recipe and packages.
const builderVersion = 1

// Recipe names what goes into a guest image. Its digest covers every field.
type Recipe struct {
	// Name is how people call the image, such as "debian-12".
	Name string
	// Suite is the distribution's code name, looked up in the package sources
	// of the machine. Its -updates and -security suites are used as well.
	Suite string
	// KernelSuite is a further release that the kernel alone is taken from, such
	// as bookworm-backports; "" for Suite. When the machine has no source for
	// it, it is looked for where Suite comes from.
	KernelSuite string `json:",omitempty"`
	// Own is a kernel of the user's, in place of one among the packages.
	Own *OwnKernel `json:",omitempty"`
	// Arch is the Debian architecture of the guest.
	Arch string
	// Packages are what the guest needs; their dependencies follow.
	Packages []string
	// Without are dependencies that no program of the guest uses (they serve
	// maintainer scripts or the building of another initramfs). They are
	// declared as installed, which spares a third of the download.
	Without []string
	// Modules are the kernel modules kept in the root: names, or directories
	// below kernel/ with a trailing slash. Dependencies follow.
	Modules []string
	// BootModules are the modules in the initramfs, in the order in which they
	// are to be loaded. Dependencies come before them by themselves.
	BootModules []string
	// Prune are paths left out of the root: "dir/" for a directory with all
	// below it, else a glob for one file. Without leading slash, in the merged
	// layout (usr/bin, never bin).
	Prune []string
	// KeepLibraries are shared libraries kept although no program of the root
	// names them, because they are opened at run time. All others that nothing
	// needs are left out.
	KeepLibraries []string
	// Applets are the busybox commands linked where no package brings one.
	Applets []string
	// Users are the accounts; each gets a group of the same name and number.
	Users []User
	// Dirs are directories that packages do not bring.
	Dirs []Dir
	// Files are texts written by the recipe, by path.
	Files map[string]string
	// Links are symbolic links, by path.
	Links map[string]string
	// Epoch is the modification time of every file, in seconds since 1970.
	Epoch int64
}

// User is an account of the guest.
type User struct {
	Name  string
	ID    int
	Home  string
	Shell string
	// Group is the primary group's name when it differs from Name.
	Group string
}

// Dir is a directory with an owner; Owner is the name of a [User], "" for root.
type Dir struct {
	Path  string
	Mode  uint32
	Owner string
}

// Digest identifies the recipe: 64 hexadecimal digits. Two machines with one
// digest would build the same image from the same versions of packages.
func (r Recipe) Digest() string { return r.digest() }

// digest identifies the recipe and the way it is carried out.
func (r Recipe) digest() string {
	text, err := json.Marshal(struct {
		Version int
		Recipe  Recipe
	}{builderVersion, r})
	if err != nil {
		panic(fmt.Sprintf("images: recipe %s does not marshal: %v", r.Name, err)) // plain data: cannot happen
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// imageKey is the content key of a recipe with the versions of the packages
// that it resolved to: 16 hexadecimal digits.
func imageKey(recipeDigest string, packages map[string]string) string {
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	sort.Strings(names)
	h := sha256.New()
	fmt.Fprintln(h, recipeDigest)
	for _, name := range names {
		fmt.Fprintf(h, "%s=%s\n", name, packages[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// uid returns the number of a user, or an error naming the recipe's mistake.
func (r Recipe) uid(name string) (int, error) {
	if name == "" || name == "root" {
		return 0, nil
	}
	for _, u := range r.Users {
		if u.Name == name {
			return u.ID, nil
		}
	}
	return 0, fmt.Errorf("recipe %s: a directory belongs to %q, which is no user of it", r.Name, name)
}
