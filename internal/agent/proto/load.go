package proto

import (
	"net/netip"
	"time"
)

// Calls about measuring.
var (
	CaptureStart = Call[CaptureSpec, None]{"capture.start"}
	CaptureStop  = Call[CaptureRef, CaptureResult]{"capture.stop"}
	FileWrite    = Call[FileBody, None]{"file.write"} // below /run/lvslab only
	FileRead     = Call[FileRef, FileBody]{"file.read"}
	FileRemove   = Call[FileRef, None]{"file.remove"}
	DNSPerf      = Call[DNSPerfSpec, DNSPerfResult]{"load.dnsperf"}
	DNSLoad      = Call[DNSLoadSpec, DNSLoadResult]{"load.lvslab"}
	Counters     = Call[CountersSpec, CounterSet]{"counters"}
	KernelLog    = Call[KernelLogSpec, []KernelLine]{"klog"}
	Info         = Call[None, GuestInfo]{"info"}
)

// CaptureSpec starts a capture on a device; it has begun when the call returns.
type CaptureSpec struct {
	ID      string `json:"id"`
	Dev     string `json:"dev"`
	Port    uint16 `json:"port"`    // UDP and TCP packets with this port at either end
	Snaplen int    `json:"snaplen"` // bytes kept of each frame, 0 = all
	MaxMB   int    `json:"max_mb"`  // memory bound; beyond it packets count as dropped
}

// CaptureRef names a running capture. QuietMS: wait until no packet came for so long.
type CaptureRef struct {
	ID       string `json:"id"`
	QuietMS  int64  `json:"quiet_ms,omitempty"`
	WithinMS int64  `json:"within_ms,omitempty"`
}

// CaptureResult is a finished capture. Pcap is the file, nanosecond format,
// link type Ethernet.
type CaptureResult struct {
	Packets uint64 `json:"packets"` // kept
	Dropped uint64 `json:"dropped"` // by the kernel or by the memory bound
	Pcap    []byte `json:"pcap"`
}

// FileBody is a file of the guest.
type FileBody struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// FileRef names a file of the guest.
type FileRef struct {
	Path string `json:"path"`
}

// DNSPerfSpec runs dnsperf with exactly these arguments.
type DNSPerfSpec struct {
	Args []string `json:"args"`
	// From binds the queries to a source address; also in Args (-a).
	From netip.Addr `json:"from,omitzero"`
	// TimeoutMS is when the process is killed.
	TimeoutMS int64 `json:"timeout_ms"`
	// StartNS is when it is started, Unix time by the guest's clock; 0, and what has
	// passed, is at once.
	StartNS int64 `json:"start_ns,omitempty"`
}

// DNSPerfResult is dnsperf's output and the wall clock around it.
type DNSPerfResult struct {
	Stdout string        `json:"stdout"`
	Stderr string        `json:"stderr"`
	Exit   int           `json:"exit"`
	Start  time.Time     `json:"start"`
	Wall   time.Duration `json:"wall"`
}

// DNSLoadSpec runs the agent's own load generator.
type DNSLoadSpec struct {
	Server   netip.AddrPort `json:"server"`
	From     netip.Addr     `json:"from"`
	Protocol string         `json:"protocol"` // udp or tcp
	// Path is a file of the guest with a line for each query: name and type.
	Path    string `json:"path"`
	Queries int    `json:"queries"`
	// Ports are the source ports in the order in which they are used. With Fresh
	// there is one for each query; else the queries walk them in turn.
	Ports  []uint16 `json:"ports"`
	Fresh  bool     `json:"fresh,omitempty"`
	Open   bool     `json:"open,omitempty"` // send by the clock, whatever comes back
	Window int      `json:"window"`         // queries outstanding at most; closed loop
	Rate   float64  `json:"rate,omitempty"` // queries a second, 0 = as fast as answers come
	// WithinMS is how long an answer is waited for, TimeoutMS when the load is cut.
	WithinMS  int64 `json:"within_ms"`
	TimeoutMS int64 `json:"timeout_ms"`
	// Device is where the MAC addresses of answers are read; "" = they are not.
	Device string `json:"device,omitempty"`
	// Identify asks for the server's identity with each query (NSID, RFC 5001); it
	// is the backend of the record then, and not the MAC.
	Identify bool `json:"identify,omitempty"`
	// StartNS is when the load begins, as in [DNSPerfSpec].
	StartNS int64 `json:"start_ns,omitempty"`
}

// DNSLoadResult is what the generator did.
type DNSLoadResult struct {
	Start time.Time     `json:"start"`
	Wall  time.Duration `json:"wall"`
	// Record has one row a query in the form of generator.csv, with MAC addresses
	// as backends.
	Record []byte `json:"record"`
	// Strange counts messages that answer no query: another id, another question,
	// another sender, no DNS at all.
	Strange int `json:"strange"`
	// Unwatched counts frames whose MAC addresses were lost.
	Unwatched uint64 `json:"unwatched"`
	// Cut is why the load ended before its last query, "" when it did not.
	Cut string `json:"cut,omitempty"`
}

// CountersSpec asks for one consistent set of a guest's counters.
type CountersSpec struct {
	Links   []string `json:"links,omitempty"`
	Tunnels []string `json:"tunnels,omitempty"`
	Named   bool     `json:"named,omitempty"`
}

// CounterSet are the counters asked for. SNMP holds /proc/net/snmp and netstat
// as "Udp.InDatagrams" → value, and the groups Ip6 and Icmp6 of /proc/net/snmp6 in
// the same form; a kernel without IPv6 has none of these.
type CounterSet struct {
	Links map[string]LinkCounters `json:"links,omitempty"`
	Named *NamedCounters          `json:"named,omitempty"`
	SNMP  map[string]uint64       `json:"snmp,omitempty"`
	// LongBits is the width of a C long in the guest, 0 = not said (64). The
	// groups Icmp, Icmp6, Udp, Tcp and TcpExt of SNMP are counted in it (struct icmp_mib,
	// icmpv6_mib, udp_mib, tcp_mib and linux_mib, include/net/snmp.h); Ip and Ip6 have
	// 64 bits anywhere.
	LongBits int `json:"long_bits,omitempty"`
	// Boot is the id of the guest's boot: another one means that all counters
	// began anew.
	Boot string `json:"boot,omitempty"`
	// Clock is where the guest's clock stood.
	Clock *ClockReading `json:"clock,omitempty"`
}

// ClockReading compares the clock that stamps captures with the one that nobody
// sets. Slewing moves both, so OffsetNS stays as it is until the clock is set.
type ClockReading struct {
	OffsetNS int64 `json:"offset_ns"` // CLOCK_REALTIME − CLOCK_MONOTONIC, ns
	WithinNS int64 `json:"within_ns"` // how far off the reading may be, ns
}

// KernelLogSpec asks for kernel messages after the sequence number Since.
type KernelLogSpec struct {
	Since uint64 `json:"since"`
}

// KernelLine is one message of /dev/kmsg.
type KernelLine struct {
	Seq   uint64 `json:"seq"`
	Level int    `json:"level"` // 0…7
	USec  uint64 `json:"usec"`  // since boot
	Text  string `json:"text"`
}

// GuestInfo is what the guest is made of.
type GuestInfo struct {
	Node     string            `json:"node"`
	BootID   string            `json:"boot_id"`
	Kernel   string            `json:"kernel"`
	Agent    string            `json:"agent"`
	Uptime   float64           `json:"uptime"`
	MemTotal uint64            `json:"mem_total"` // bytes
	MemFree  uint64            `json:"mem_available"`
	Tools    map[string]string `json:"tools"` // named, dnsperf → version
	KlogSeq  uint64            `json:"klog_seq"`
}
