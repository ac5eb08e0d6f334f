package proto

import "encoding/json"

// TemplateMAC is the hardware address of a template's network card. Its clones
// have it too until their enrolment gives each its own: QEMU keeps a card's
// address with its state, whatever the definition says.
const TemplateMAC = "02:00:00:00:00:01"

// Prepare, in place of an Enrol on the engine port of a guest that has no
// identity, starts what costs every clone of it time. What is started by its
// name is there before the guest is seeded, and must not matter for what is
// measured.
type Prepare struct {
	Start []string `json:"prepare"`
}

// What can be prepared. PrepareNamed starts named without a zone: it listens on
// the loopback device, and loads the backend's configuration when it gets one.
// PrepareAgent has the agent go through its first contact once, by itself.
// PrepareTunnels loads what an IPIP device needs: no secret is drawn by it.
// PrepareDirector loads what IPVS depends on and has the files of IPVS and its
// schedulers read, which are loaded after the enrolment: IPVS draws the secret of
// its table when it is.
// PrepareCaches drops what was only needed for the boot. PrepareMemory, the last of all, makes the guest cheap to save and to clone.
const (
	PrepareNamed    = "named"
	PrepareAgent    = "agent"
	PrepareTunnels  = "tunnels"
	PrepareDirector = "director"
	PrepareCaches   = "caches"
	PrepareMemory   = "memory"
)

// Prepared is the agent's answer to Prepare, when all of it runs.
type Prepared struct {
	Started []string `json:"prepared"`
	Error   string   `json:"error,omitempty"`
}

// ParsePrepare recognises a Prepare.
func ParsePrepare(line []byte) (Prepare, bool) {
	var p Prepare
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &p) != nil {
		return Prepare{}, false
	}
	return p, len(p.Start) > 0
}

// ParsePrepared recognises a Prepared.
func ParsePrepared(line []byte) (Prepared, bool) {
	var p Prepared
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &p) != nil {
		return Prepared{}, false
	}
	return p, p.Started != nil || p.Error != ""
}
