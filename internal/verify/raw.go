package verify

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/artifact"
	"github.com/lvslab/lvslab/internal/load"
)

// setting is what the plan says about a run, as far as it is needed here.
type setting struct {
	Scheduler string `json:"scheduler"`
	OnePacket bool   `json:"one_packet"`
	Protocol  string `json:"protocol"`
	Queries   int    `json:"queries"`
	Clients   int    `json:"clients"`
	// StartWithin bounds how far apart the clients may begin, 0 = nothing is said.
	StartWithin time.Duration `json:"start_within"`
	VIPs        int           `json:"vips"`
	Within      time.Duration `json:"within"`
	Sockets     int           `json:"sockets"`
	Load        string        `json:"load"` // "" = dnsperf
	Mode        string        `json:"mode"`
	Mark        uint32        `json:"fwmark"` // of the service, 0 = it is one of addresses
	Port        uint16        `json:"port"`   // with a mark
	Kernel      string        `json:"kernel"` // the image that the director boots, "" = the declared one
	Direct      string        `json:"direct"` // the backend asked without LVS, "" = through the director
	// Seen are the clients' addresses behind NAT and those that the director sees.
	Seen map[netip.Addr]netip.Addr `json:"seen"`
}

// trial is a run as plan.json holds it.
type trial struct {
	RunID      string `json:"run_id"`
	Experiment string `json:"experiment"`
	Block      int    `json:"block"`
	Order      int    `json:"order"`
	Treatment  struct {
		ID      string            `json:"id"`
		Factors map[string]string `json:"factors"`
		Setting setting           `json:"setting"`

		StandsFor []string `json:"stands_for"`
	} `json:"treatment"`
	PrevTreatment string `json:"prev_treatment"`
}

// raw is the raw data of one run.
type raw struct {
	queries  []load.Query
	segments []load.Segment // of TCP
	script   []byte         // the events that show a difference, nil without one
	fresh    proto.IPVSFreshState
	before   map[string]proto.CounterSet
	after    map[string]proto.CounterSet
	settled  proto.IPVSStats
	conns    []conn
	reports  []load.Report
	unread   int           // reports of dnsperf that cannot be read
	captures [][]byte      // pcap, when they were kept
	clients  []load.Client // as clients.csv has them, with when each began by starts.json
	rows     [][]string    // of clients.csv
	starts   *starts       // of several clients, nil with one and in results before it was kept
	own      *own          // of lvslab's generator, nil with dnsperf
}

// conn is a row of conns.csv.
type conn struct {
	protocol string
	client   netip.AddrPort
	virtual  netip.AddrPort
	dest     netip.AddrPort
	state    string
	expires  int // seconds left
}

// readRaw reads the files of raw/<run>/. One that is missing is an error.
func readRaw(a *artifact.Artifact, run string) (*raw, error) {
	r := &raw{}
	file := func(name string) ([]byte, error) { return a.ReadFile(artifact.RawDir + "/" + run + "/" + name) }
	data, err := file(artifact.QueriesFile)
	if err != nil {
		return nil, err
	}
	if r.queries, err = load.ReadQueries(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	var before, after struct {
		IPVS  *proto.IPVSStats            `json:"ipvs"`
		Nodes map[string]proto.CounterSet `json:"nodes"`
	}
	for name, into := range map[string]any{"ipvs.json": &r.fresh, "counters-before.json": &before, "counters-after.json": &after} {
		if data, err = file(name); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	r.before, r.after = before.Nodes, after.Nodes
	if after.IPVS != nil {
		r.settled = *after.IPVS
	}
	if err := r.readReplay(file); err != nil {
		return nil, err
	}
	if data, err = file(artifact.StartsFile); err == nil {
		if err := json.Unmarshal(data, &r.starts); err != nil {
			return nil, fmt.Errorf("%s: %w", artifact.StartsFile, err)
		}
	}
	if data, err = file(artifact.ClientsFile); err == nil {
		if r.clients, r.rows, err = load.ReadClients(bytes.NewReader(data)); err != nil {
			return nil, err
		}
	}
	if data, err = file("conns.csv"); err != nil {
		return nil, err
	}
	if r.conns, err = readConns(data); err != nil {
		return nil, err
	}
	if data, err = file(artifact.GeneratorFile); err == nil {
		r.own, err = readOwn(data, file)
	} else if data, err = file("dnsperf.txt"); err == nil {
		r.readReports(string(data))
	}
	if err != nil {
		return nil, err
	}
	r.captures, err = readCaptures(filepath.Join(a.Dir(), artifact.RawDir, run))
	return r, err
}

func readConns(data []byte) ([]conn, error) {
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("conns.csv: %w", errors.Join(err, errors.New("no header")))
	}
	var out []conn
	for _, row := range rows[1:] {
		if len(row) < 6 {
			return nil, fmt.Errorf("conns.csv: %d columns", len(row))
		}
		c := conn{protocol: row[0], state: row[4]}
		var errs [4]error
		c.client, errs[0] = netip.ParseAddrPort(row[1])
		c.virtual, errs[1] = netip.ParseAddrPort(row[2])
		c.dest, errs[2] = netip.ParseAddrPort(row[3])
		c.expires, errs[3] = strconv.Atoi(row[5])
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("conns.csv: %w", err)
		}
		out = append(out, c)
	}
	return out, nil
}

// readReports splits dnsperf.txt at the headings of its processes.
func (r *raw) readReports(text string) {
	for _, part := range strings.Split("\n"+text, "\n# exit ")[1:] {
		report, err := load.ParseReport(part)
		if err != nil {
			r.unread++
			continue
		}
		r.reports = append(r.reports, report)
	}
}

func readCaptures(dir string) ([][]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out [][]byte
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pcap") {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			out = append(out, data)
		}
	}
	return out, err
}

// served reports whether a service belongs to the run: a VIP and protocol that
// the run's queries went to, or would have.
func (r *raw) mine(k proto.IPVSKey, s setting, vips map[netip.Addr]bool, port uint16) bool {
	if s.Mark != 0 {
		return k.FWMark == s.Mark
	}
	return k.Protocol == s.Protocol && k.Port == port && vips[k.VIP]
}

// of reports whether a row of the connection table belongs to the run.
func (c conn) of(s setting, vips map[netip.Addr]bool, port uint16) bool {
	return c.protocol == s.Protocol && c.virtual.Port() == port && vips[c.virtual.Addr()]
}

// target finds the VIPs and the port that the run was sent to. With queries in
// the file they say it; else the services with the run's scheduler do.
func (r *raw) target(s setting) (map[netip.Addr]bool, uint16) {
	vips := map[netip.Addr]bool{}
	for _, q := range r.queries {
		vips[q.VIP] = true
	}
	if s.Mark != 0 {
		return vips, s.Port
	}
	port := uint16(0)
	for _, svc := range r.fresh.Services {
		if len(r.queries) == 0 && svc.Protocol == s.Protocol && svc.Scheduler == s.Scheduler {
			vips[svc.VIP] = true
		}
		if (vips[svc.VIP] || s.Direct != "") && svc.Protocol == s.Protocol {
			port = svc.Port
		}
	}
	return vips, port
}
