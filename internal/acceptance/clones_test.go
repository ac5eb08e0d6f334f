package acceptance

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
)

// linked makes a cache of the test's own that has the images of the usual one
// and no templates.
func linked(t *testing.T, s *site) string {
	t.Helper()
	cache := filepath.Join(s.dir, "cache")
	from, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"images", "libvirt-capabilities"} {
		if err := os.CopyFS(filepath.Join(cache, dir), os.DirFS(filepath.Join(from, dir))); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("LVSLAB_CACHE", cache)
	t.Cleanup(func() {
		s.run(time.Minute, "destroy", "--auto-approve", "lab.hcl")
		if err := os.RemoveAll(cache); err != nil {
			t.Error(err)
		}
	})
	return cache
}

func templatesIn(t *testing.T, cache string) (files, unfinished []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cache, "templates", "*", "memory"))
	if err != nil {
		t.Fatal(err)
	}
	unfinished, err = filepath.Glob(filepath.Join(cache, "templates", ".build-*"))
	if err != nil {
		t.Fatal(err)
	}
	return files, unfinished
}

const twoClients = `
client "second" {
  nic { network = network.wire }
}

experiment "ports" {
  service    = service.s
  clients    = [client.probe, client.second]
  iterations = 1
  seed       = 3
  load "dnsperf" {
    queries = 60
    sockets = 20
  }
}
`

// TestAccClonesAreDistinct: machines that were one machine a moment ago have
// keys, boot ids and hardware addresses of their own, and draw other numbers:
// random bytes, source ports, DNS ids.
func TestAccClonesAreDistinct(t *testing.T) {
	s := newSite(t, small("twins", "198.19.20", twoClients))
	cache := linked(t, s)
	r := s.must(0, 5*time.Minute, "apply", "--keep", "lab.hcl")
	if !strings.Contains(r.stdout+r.stderr, "4 machines cloned") {
		t.Errorf("not cloned: %s", r)
	}
	if files, unfinished := templatesIn(t, cache); len(files) != 2 || len(unfinished) > 0 {
		t.Errorf("templates %v, unfinished %v", files, unfinished)
	}
	for what, command := range map[string]string{
		"random bytes":     "od -An -tx1 -N16 /dev/urandom",
		"random id":        "cat /proc/sys/kernel/random/uuid",
		"hardware address": "cat /sys/class/net/wire/address || ip -br link",
		"host name":        "hostname",
	} {
		seen := map[string]string{}
		for _, node := range []string{"client.probe", "client.second", "director.front", "backend.web"} {
			out := s.must(0, time.Minute, "exec", node, "--", "sh", "-c", command).stdout
			if other, twice := seen[out]; twice {
				t.Errorf("%s and %s have the same %s: %s", node, other, what, out)
			}
			seen[out] = node
		}
	}
	out := s.must(0, time.Minute, "exec", "client.probe", "--", "date", "+%s").stdout
	clock, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if now := time.Now().Unix(); err != nil || clock < now-20 || clock > now+1 {
		t.Errorf("the clock of a clone says %s, it is %d", out, now)
	}
	m := s.latest("twins").Manifest()
	if len(m.Clones) != 4 || len(m.GuestSeeds) != 4 || m.Clones["backend.web"] == m.Clones["client.probe"] {
		t.Errorf("manifest: clones %v, %d seeds", m.Clones, len(m.GuestSeeds))
	}
	ports := portsDrawn(t, s)
	if n := common(ports); n > 2 { // 20 of 28,000: three in common have a chance of one in 400,000
		t.Errorf("%d source ports in common: %v", n, ports)
	}
	ids := map[string]map[string]bool{}
	for _, node := range []string{"client.probe", "client.second"} {
		ids[node] = map[string]bool{}
		for range 4 {
			out := s.must(0, time.Minute, "exec", node, "--", "dig", "+time=5", "@198.19.20.101", "n1.small.test").stdout
			_, id, _ := strings.Cut(out, ", id: ")
			ids[node][strings.Fields(id + " none")[0]] = true
		}
	}
	if n := common(ids); n > 1 || len(ids["client.probe"]) < 3 {
		t.Errorf("DNS ids: %v", ids)
	}
}

// portsDrawn returns the source ports of the newest result by client.
func portsDrawn(t *testing.T, s *site) map[string]map[string]bool {
	t.Helper()
	a := s.latest("twins")
	ports := map[string]map[string]bool{}
	for _, run := range a.Runs() {
		f, err := os.Open(filepath.Join(a.Dir(), "raw", run.RunID, "queries.csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		client, port := slices.Index(rows[0], "client"), slices.Index(rows[0], "port")
		for _, row := range rows[1:] {
			if ports[row[client]] == nil {
				ports[row[client]] = map[string]bool{}
			}
			ports[row[client]][row[port]] = true
		}
	}
	if len(ports) != 2 {
		t.Fatalf("clients %v", ports)
	}
	return ports
}

// common counts the values that both have.
func common(by map[string]map[string]bool) int {
	count, n := map[string]int{}, 0
	for _, set := range by {
		for v := range set {
			if count[v]++; count[v] == 2 {
				n++
			}
		}
	}
	return n
}

// TestAccDamagedTemplate: it is noticed, said and made anew; without any
// template the machines are booted, and that is said too. A cold boot asks for
// none.
func TestAccDamagedTemplate(t *testing.T) {
	s := newSite(t, small("damaged", "198.19.21", ""))
	cache := linked(t, s)
	s.must(0, 5*time.Minute, "apply", "lab.hcl")
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	files, _ := templatesIn(t, cache)
	if len(files) != 2 {
		t.Fatalf("templates: %v", files)
	}
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("damage"), 40<<20); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	r := s.must(0, 5*time.Minute, "apply", "lab.hcl")
	if !strings.Contains(r.stderr, "The template is made anew") || !strings.Contains(r.stdout+r.stderr, "3 machines cloned") {
		t.Errorf("apply with damaged templates: %s", r)
	}
	s.must(0, time.Minute, "exec", "client.probe", "--", "dig", "+short", "+time=5", "@198.19.21.101", "n7.small.test")
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")

	// Nothing can be stored: the machines are booted, and the reason is named.
	templates := filepath.Join(cache, "templates")
	if err := os.RemoveAll(templates); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(templates, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r = s.must(0, 5*time.Minute, "apply", "lab.hcl")
	if !strings.Contains(r.stderr, "Booting instead of restoring") || !strings.Contains(r.stdout+r.stderr, "3 machines started") {
		t.Errorf("apply without templates: %s", r)
	}
	s.must(0, time.Minute, "destroy", "--auto-approve", "lab.hcl")
	if err := os.Remove(templates); err != nil {
		t.Fatal(err)
	}
	r = s.must(0, 5*time.Minute, "apply", "--boot", "cold", "lab.hcl")
	if files, _ := templatesIn(t, cache); len(files) > 0 || !strings.Contains(r.stdout+r.stderr, "3 machines started") {
		t.Errorf("cold: templates %v, %s", files, r)
	}
}
