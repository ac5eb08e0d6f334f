package load

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func plain() DNSPerf {
	return DNSPerf{VIPs: []netip.Addr{vip}, Port: 53, Protocol: "udp", Questions: QueryNames(zones), Queries: 10, Sockets: 1, Timeout: 5 * time.Second, Dir: "/run/lvslab"}
}

func TestJobsOfThePaper(t *testing.T) {
	jobs, err := plain().Jobs()
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	want := []string{"-s", "198.18.0.101", "-p", "53", "-d", "/run/lvslab/queries-0", "-m", "udp", "-c", "1", "-t", "5"}
	if diff := cmp.Diff(want, jobs[0].Args); diff != "" {
		t.Error(diff)
	}
	if jobs[0].Path != "/run/lvslab/queries-0" || string(jobs[0].Lines) != string(QueryFile(QueryNames(zones), 10)) {
		t.Errorf("%+v", jobs[0])
	}
}

func TestJobsWithEverything(t *testing.T) {
	d := plain()
	d.Protocol, d.Sockets, d.Rate, d.Timeout, d.Outstanding = "tcp", 20, 100, 1500*time.Millisecond, 200
	d.VIPs = append(d.VIPs, vip.Next())
	d.From = []netip.Addr{client, client.Next()}
	jobs, err := d.Jobs()
	if err != nil || len(jobs) != 4 {
		t.Fatal(jobs, err)
	}
	want := "-s 198.18.0.102 -p 53 -d /run/lvslab/queries-3 -m tcp -c 20 -t 1.5 -a 198.18.0.129 -q 200 -Q 25"
	if got := strings.Join(jobs[3].Args, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestJobsRefuse(t *testing.T) {
	for name, f := range map[string]func(*DNSPerf){
		"no VIP":         func(d *DNSPerf) { d.VIPs = nil },
		"no question":    func(d *DNSPerf) { d.Questions = nil },
		"no query":       func(d *DNSPerf) { d.Queries = 0 },
		"257 sockets":    func(d *DNSPerf) { d.Sockets = 257 },
		"slow":           func(d *DNSPerf) { d.Rate = 0.4 },
		"other protocol": func(d *DNSPerf) { d.Protocol = "dot" },
		"no timeout":     func(d *DNSPerf) { d.Timeout = 0 },
	} {
		d := plain()
		f(&d)
		if _, err := d.Jobs(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Every query is sent by exactly one process, whatever the number of them.
func TestJobsDealAllQueries(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := plain()
		d.Queries = rapid.IntRange(1, 50).Draw(r, "queries")
		for range rapid.IntRange(0, 3).Draw(r, "more VIPs") {
			d.VIPs = append(d.VIPs, d.VIPs[len(d.VIPs)-1].Next())
		}
		jobs, err := d.Jobs()
		if err != nil {
			r.Fatal(err)
		}
		want := map[string]int{}
		for i := range d.Queries {
			want[d.Questions[i%len(d.Questions)].String()]++
		}
		got := map[string]int{}
		for _, j := range jobs {
			lines := strings.Split(strings.TrimSuffix(string(j.Lines), "\n"), "\n")
			if len(lines) != j.Queries {
				r.Fatalf("%d lines, says %d", len(lines), j.Queries)
			}
			for _, l := range lines {
				got[l]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatal(diff)
		}
	})
}
