package artifact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/lvslab/lvslab/internal/diag"
)

// Manifest is manifest.json: everything needed to know under which conditions
// the rows were measured, and the SHA-256 of every other file.
type Manifest struct {
	SchemaVersion int    `json:"schema_version"`
	Lab           string `json:"lab"`
	Run           string `json:"run"`     // name of the result's directory
	Lineage       string `json:"lineage"` // the lab's random id
	Study         string `json:"study"`   // hash that identifies the study
	// Parent is the result that this one adds blocks to, nil = none.
	Parent     *Parent   `json:"parent,omitempty"`
	StartedAt  time.Time `json:"started_at"`  // start of the first session's apply, UTC
	FinishedAt time.Time `json:"finished_at"` // when the result was sealed, UTC
	// Partial says why the result was not sealed, "" = it was.
	Partial string `json:"partial,omitempty"`
	// Outcome is "done", "failed", "check failed", "counts broke" or
	// "interrupted"; ExitCode is the one that the command ended with.
	Outcome  string `json:"outcome"`
	ExitCode int    `json:"exit_code"`

	Versions    Versions          `json:"versions"`
	Host        Host              `json:"host,omitzero"`
	Images      map[string]string `json:"images,omitempty"` // image name → digest
	Accelerator string            `json:"accelerator"`      // kvm or tcg
	Topology    string            `json:"topology_sha256"`  // of the resolved topology

	Seeds map[string]int64 `json:"seeds,omitempty"` // experiment → seed
	// RunOrder holds the run ids in the order in which they were made.
	RunOrder []string `json:"run_order,omitempty"`
	// BlockOrder is experiment → what its blocks are ordered by, [OrderSquares] or
	// [OrderShuffle]: decided by the blocks that the study had at first, and kept
	// when some are added.
	BlockOrder map[string]string `json:"block_order,omitempty"`
	// Shard is "i/n" when the result holds the i-th of n shares of the study's
	// blocks, "" = all of them.
	Shard string `json:"shard,omitempty"`
	// Parts are the results that this one was merged from, in the order of their
	// shares.
	Parts []Part `json:"parts,omitempty"`
	// Sessions are the applies that made the runs, in their order.
	Sessions []Session `json:"sessions,omitempty"`
	// Isolation is experiment → what was made anew before each of its runs:
	// "flush" = the director's IPVS, "restore" = the director, "restore-all" =
	// every machine.
	Isolation map[string]string `json:"isolation,omitempty"`
	// Renewed is run id → node that was made anew for the run → id of its boot.
	Renewed map[string]map[string]string `json:"renewed,omitempty"`
	// Clones are node → key of the template that the machine is a clone of;
	// machines that were booted are not in it.
	Clones map[string]string `json:"clones,omitempty"`
	// GuestSeeds are node → what the guest's generator of random numbers was
	// seeded with, hex, of the machines that this apply has made.
	GuestSeeds map[string]string `json:"guest_seeds,omitempty"`
	// Sysctls are node → name → value as read back before the runs.
	Sysctls map[string]map[string]string `json:"sysctls,omitempty"`
	// DestinationOrder is service → backends as the kernel lists them, first = head.
	DestinationOrder map[string][]string `json:"destination_order,omitempty"`
	// Addresses are node, NIC or service → address.
	Addresses map[string]string `json:"addresses,omitempty"`
	Timings   Timings           `json:"timings"`
	// Files is path (with slashes) → SHA-256 in hex of every file but
	// manifest.json and manifest.sha256. Filled in by the Writer.
	Files map[string]string `json:"files"`
}

// Versions are what took part in the measurement. Empty = not known.
type Versions struct {
	Lvslab      string `json:"lvslab"`
	GuestKernel string `json:"guest_kernel,omitempty"` // of the directors
	// GuestKernels are those of all images, by name; left out when there is one.
	GuestKernels map[string]string `json:"guest_kernels,omitempty"`
	HostKernel   string            `json:"host_kernel,omitempty"`
	QEMU         string            `json:"qemu,omitempty"`
	Libvirt      string            `json:"libvirt,omitempty"`
	IPVS         string            `json:"ipvs,omitempty"`
	IPVSAdm      string            `json:"ipvsadm,omitempty"`
	Named        string            `json:"named,omitempty"`
	// NameServers are those of the backends that do not run BIND, as package and
	// version, by address.
	NameServers map[string]string `json:"name_servers,omitempty"`
	DNSPerf     string            `json:"dnsperf,omitempty"`
}

// Host is the machine that the guests ran on. Times of two results may be
// compared only when they have the same one.
type Host struct {
	// ID is a hash of the machine's id (machine-id(5)), which says whether two
	// results are of one machine and not which. "" = not known.
	ID    string `json:"id,omitempty"`
	CPU   string `json:"cpu,omitempty"` // model name
	Cores int    `json:"cores,omitempty"`
}

// Label is the host as one word of a table: the beginning of its id, "unknown"
// when it has none.
func (h Host) Label() string {
	if h.ID == "" {
		return "unknown"
	}
	return fmt.Sprintf("%.8s", h.ID)
}

// String names the host for people.
func (h Host) String() string {
	if h == (Host{}) {
		return ""
	}
	return fmt.Sprintf("%s, %d cores, id %.8s", cmp.Or(h.CPU, "unknown CPU"), h.Cores, cmp.Or(h.ID, "unknown"))
}

// encode returns the manifest as it is written: indented, keys sorted, so that
// the same manifest is the same bytes.
func (m Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ManifestFile, err)
	}
	return append(b, '\n'), nil
}

// ParseManifest reads manifest.json. A manifest of a newer schema is a
// *diag.Failure: its columns may mean something else.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", ManifestFile, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Manifest{}, fmt.Errorf("read %s: more data after the manifest", ManifestFile)
	}
	switch {
	case m.SchemaVersion < 1:
		return Manifest{}, fmt.Errorf("read %s: schema_version %d is not one", ManifestFile, m.SchemaVersion)
	case m.SchemaVersion > SchemaVersion:
		return Manifest{}, diag.Fail(nil, "Result of a newer lvslab",
			"Read it with the version that wrote it, or a newer one.",
			"%s has schema version %d, written by lvslab %s; this one reads versions up to %d.",
			ManifestFile, m.SchemaVersion, m.Versions.Lvslab, SchemaVersion)
	}
	for path := range m.Files {
		if err := checkRelative(path); err != nil {
			return Manifest{}, fmt.Errorf("read %s: %w", ManifestFile, err)
		}
	}
	return m, nil
}
