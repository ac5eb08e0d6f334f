package operation

import (
	"os"

	"github.com/lvslab/lvslab/internal/artifact"
)

// owner returns the user who called sudo, nil when nobody did: what lvslab
// writes for a person belongs to that person.
func owner() (*artifact.Owner, error) { return artifact.SudoOwner(os.LookupEnv) }

// ownerIDs is owner as numbers, the process's own when there was no sudo.
func ownerIDs() (uid, gid int) {
	if o, err := owner(); err == nil && o != nil {
		return o.UID, o.GID
	}
	return os.Getuid(), os.Getgid()
}
