package artifact

import (
	"fmt"
	"os"
	"strconv"
)

// Owner is the user who shall own what is written. A nil *Owner leaves files
// to the user that the program runs as.
type Owner struct{ UID, GID int }

// SudoOwner returns the user who called sudo, from SUDO_UID and SUDO_GID, or
// nil when sudo took no part. lookup is os.LookupEnv outside tests. A value
// that is not a number is an error: guessing would hand results to somebody.
func SudoOwner(lookup func(string) (string, bool)) (*Owner, error) {
	uid, okUID := lookup("SUDO_UID")
	gid, okGID := lookup("SUDO_GID")
	if !okUID || !okGID {
		return nil, nil
	}
	u, err := strconv.ParseUint(uid, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("SUDO_UID %q is not a user number: %w", uid, err)
	}
	g, err := strconv.ParseUint(gid, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("SUDO_GID %q is not a group number: %w", gid, err)
	}
	return &Owner{UID: int(u), GID: int(g)}, nil
}

// take gives a path to the owner. A link is changed itself, not its target.
func (o *Owner) take(path string) error {
	if o == nil {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}
