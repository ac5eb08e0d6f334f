package artifact

import "time"

// What the blocks of an experiment are ordered by, see Manifest.BlockOrder.
const (
	OrderSquares = "squares" // rows of Williams squares
	OrderShuffle = "shuffle" // each block by itself
)

// Session is one apply that made runs of a result. An interrupted study has
// several.
type Session struct {
	StartedAt time.Time  `json:"started_at"`         // of the apply, UTC
	EndedAt   *time.Time `json:"ended_at,omitempty"` // nil: it was killed, and nobody knows when
	// End is "sealed", or why the session ended; "" = it was killed.
	End  string `json:"end,omitempty"`
	Runs int    `json:"runs"` // that it made, whole ones
	// Result is the part that the session belongs to in a result that was merged.
	Result   string   `json:"result,omitempty"`
	Lineage  string   `json:"lineage"` // of the lab
	Versions Versions `json:"versions"`
	Host     Host     `json:"host,omitzero"`
	// HostBoot is the host kernel's /proc/sys/kernel/random/boot_id.
	HostBoot string `json:"host_boot,omitempty"`
	// GuestBoots are node → id of the boot of the machine at the start of the runs.
	GuestBoots map[string]string `json:"guest_boots,omitempty"`
}
