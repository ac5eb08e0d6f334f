package lang

import (
	"regexp"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/lvslab/lvslab/internal/addr"
)

// minMemory is the least that a guest is given. Kernel, root image, agent and
// named were measured at 256 MiB and more; nothing smaller than this is tested.
const minMemory = 192 << 20

// bootRestore asks for a clone of a saved machine.
const bootRestore = "restore"

// maxMemory catches typing errors; what the host has is checked at apply.
const maxMemory = 64 << 30

// sysctlKey is a name below /proc/sys, in either notation.
var sysctlKey = regexp.MustCompile(`^[a-z0-9_]+([./][A-Za-z0-9_-]+)+$`)

func (e *evaluator) machine(b *block, inst *instance) Machine {
	r := e.reader(b, inst)
	m := Machine{Noun: r.noun, Range: b.rng, Image: r.handle("image", addr.Image), Boot: r.oneOf("boot", "", "cold", bootRestore),
		Memory: e.memory(r), Sysctl: e.sysctl(r), Serves: r.handles("serves", addr.Zone), Server: r.server(), Addresses: 1,
		Masquerade: r.handle("masquerade", addr.Network)}
	for i, nb := range b.sub("nic") {
		nr := r.sub(nb, i)
		nic := NIC{Range: nb.rng, Impair: e.impair(nr)}
		slots := e.nicSlots(b, inst)
		if i >= len(slots) || !slots[i].ok {
			r.fail("nic")
			continue
		}
		nic.Network = slots[i].network
		if i == 0 {
			m.Addresses = slots[i].count
		}
		for _, key := range SlotKeys(r.noun, i, slots[i].count) {
			if ip, ok := e.addresses[key]; ok {
				nic.Addresses = append(nic.Addresses, ip)
			} else if e.addresses != nil {
				r.complain("", "No address assigned", "Assign addresses for the same topology before resolving it.", "Nothing is assigned for %s.", key)
			}
		}
		m.NICs = append(m.NICs, nic)
	}
	if len(m.NICs) == 0 {
		r.fail("nic")
	}
	return m
}

func (e *evaluator) memory(r *reader) int64 {
	v, ok := r.value("memory", cty.String)
	if !ok {
		return defaultMemory
	}
	n, why := parseSize(v.AsString())
	switch {
	case why != "":
		r.complain("memory", "Not a size", `Write a number with a unit: "256MiB", "1GiB".`, "memory of %s is %q: %s.", r.noun, v.AsString(), why)
	case n < minMemory:
		r.complain("memory", "Too little memory", `Give at least "192MiB"; 256MiB is the default.`, "memory of %s is %q.", r.noun, v.AsString())
	case n > maxMemory:
		r.complain("memory", "Too much memory", `Give at most "64GiB"; 256MiB is the default.`, "memory of %s is %q.", r.noun, v.AsString())
	case n%(1<<20) != 0:
		r.complain("memory", "Not a whole number of MiB", `Write for example "256MiB".`, "memory of %s is %q.", r.noun, v.AsString())
	default:
		return n
	}
	return defaultMemory
}

// sysctl reads a map whose values may be texts or numbers. The keys are kept
// in dotted notation.
func (e *evaluator) sysctl(r *reader) map[string]string {
	v, ok := r.value("sysctl", cty.Map(cty.String))
	if !ok {
		return nil
	}
	out := map[string]string{}
	for k, ev := range v.AsValueMap() {
		switch {
		case !sysctlKey.MatchString(k):
			r.complain("sysctl", "Not a sysctl", `Write names as in "net.ipv4.vs.conn_reuse_mode".`, "sysctl of %s has the key %q.", r.noun, k)
		case ev.IsNull():
			r.complain("sysctl", "Null in a map", "Leave the key out.", "sysctl of %s has null for %q.", r.noun, k)
		default:
			out[k] = ev.AsString()
		}
	}
	return out
}

// maxDelay is what netem can hold a packet back for a measurement to make sense.
const maxDelay = time.Minute

// impair reads the impair block inside a network or a NIC.
func (e *evaluator) impair(r *reader) *Impair {
	blocks := r.b.sub("impair")
	if len(blocks) == 0 {
		return nil
	}
	ir := r.sub(blocks[0], 0)
	im := &Impair{
		Delay: ir.duration("delay", 0, 0, maxDelay), Jitter: ir.duration("jitter", 0, 0, maxDelay),
		Loss: ir.fraction("loss"), Duplicate: ir.fraction("duplicate"), Reorder: ir.fraction("reorder"),
		RateBits: ir.rate("rate"), Limit: int(ir.whole("limit", 0, 1, 1_000_000)),
	}
	switch {
	case im.Jitter > 0 && im.Delay == 0:
		ir.complain("jitter", "Jitter without delay", "Give a delay as well: jitter varies it.", "jitter of %s has nothing to vary.", ir.owner("jitter"))
	case im.Reorder > 0 && im.Delay == 0:
		ir.complain("reorder", "Reordering without delay", "Give a delay as well: reordered packets are those that do not wait.", "reorder of %s needs a delay.", ir.owner("reorder"))
	}
	return im
}

func (r *reader) fraction(arg string) float64 {
	v, ok := r.value(arg, cty.String)
	if !ok {
		return 0
	}
	f, why := parseFraction(v.AsString())
	if why != "" {
		r.complain(arg, "Not a share", `Write 0.01 or "1%".`, "%s of %s is %q: %s.", arg, r.owner(arg), v.AsString(), why)
	}
	return f
}

func (r *reader) rate(arg string) int64 {
	v, ok := r.value(arg, cty.String)
	if !ok {
		return 0
	}
	n, why := parseRate(v.AsString())
	if why != "" {
		r.complain(arg, "Not a rate", `Write bits a second with a unit: "10Mbit".`, "%s of %s is %q: %s.", arg, r.owner(arg), v.AsString(), why)
	}
	return n
}
