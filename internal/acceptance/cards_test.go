package acceptance

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lvslab/lvslab/internal/vmtest"
)

// fourCards has four backends, each of whose cards does another thing to the answers.
const fourCards = `
lab "cards" { teardown = "on-success" }

network "wire" { cidr = "198.19.54.0/24" }

client "probe" {
  nic { network = network.wire }
}

director "front" {
  nic { network = network.wire }
}

backend "twice" {
  serves = [zone.z]
  nic {
    network = network.wire
    impair { duplicate = "50%" }
  }
}

backend "mixed" {
  serves = [zone.z]
  nic {
    network = network.wire
    impair {
      delay   = "200ms"
      reorder = "25%"
    }
  }
}

backend "narrow" {
  serves = [zone.z]
  nic {
    network = network.wire
    impair { rate = "64kbit" }
  }
}

backend "brim" {
  serves = [zone.z]
  nic {
    network = network.wire
    impair {
      rate  = "64kbit"
      limit = 2
    }
  }
}

zone "z" {
  name    = "small.test"
  records = [for i in range(20) : { name = "n${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "up" {
  from = director.front
  to   = [backend.twice, backend.mixed, backend.narrow, backend.brim]
}

service "s" {
  director  = director.front
  vip       = "198.19.54.101"
  scheduler = "rr"
  real_server {
    backends = [backend.twice, backend.mixed, backend.narrow, backend.brim]
    tunnel   = tunnel.up
  }
}

experiment "cards" {
  service = service.s
  clients = client.probe
  load "dnsperf" {
    queries = 400
    sockets = 40
    timeout = "2s"
  }
}
`

// fate is what became of the queries that rr gave to one backend.
type fate struct {
	asked, unanswered, duplicates int
	latencies                     []float64 // seconds, of the answered ones
	bits                          float64   // of all answers, on the wire
	first, last                   time.Time // when an answer came
}

// TestAccLongCards measures what the cards of single machines do: copies, packets that
// pass others, a bit rate, and a queue that is full.
func TestAccLongCards(t *testing.T) {
	vmtest.NeedLong(t)
	s := newSite(t, fourCards)
	s.must(0, 4*time.Minute, "apply", "--keep", "lab.hcl")
	a := s.latest("cards")
	run := a.Runs()[0]
	if !run.Valid {
		t.Errorf("not valid: %+v", run)
	}
	by := fates(t, queriesOf(t, a, run))
	for name, f := range by {
		slices.Sort(f.latencies)
		t.Logf("%s: %d asked, %d unanswered, %d duplicates, %d answers of %.0f bit in %v", name, f.asked, f.unanswered, f.duplicates, len(f.latencies), f.bits, f.last.Sub(f.first))
	}
	// A half of 100 twice, ± 25 being five sigma; no other card makes a copy.
	if f := by["backend.twice"]; f.duplicates < 25 || f.duplicates > 75 || f.unanswered > 0 || run.AnswersDuplicate != f.duplicates {
		t.Errorf("twice: %d duplicates of %d, in the run %d", f.duplicates, f.asked, run.AnswersDuplicate)
	}
	// A quarter of 100 do not wait, ± 22 being five sigma, and none comes in between.
	mixed := by["backend.mixed"]
	early := 0
	for _, l := range mixed.latencies {
		if l < 0.2 {
			early++
		}
	}
	if early < 3 || early > 47 || mixed.unanswered > 0 {
		t.Errorf("mixed: %d of %d before 200 ms", early, len(mixed.latencies))
	}
	// One frame is on its way while the clock does not run yet.
	narrow := by["backend.narrow"]
	if rate := narrow.bits / narrow.last.Sub(narrow.first).Seconds(); rate > 64_000*1.02 || narrow.unanswered > 0 {
		t.Errorf("narrow: %.0f bit/s", rate)
	}
	// Ten ports ask at once and two answers may wait: the others are lost.
	if brim := by[""]; brim.unanswered == 0 || brim.unanswered != run.Unanswered {
		t.Errorf("brim: %d of %d lost, in the run %d", brim.unanswered, brim.asked, run.Unanswered)
	}
	if brim := by["backend.brim"]; len(brim.latencies) == 0 {
		t.Error("brim: none is answered")
	}
	s.must(0, time.Minute, "destroy", "--auto-approve")
}

// fates sorts the rows of queries.csv by backend, "" those without an answer.
func fates(t *testing.T, rows [][]string) map[string]*fate {
	t.Helper()
	by := map[string]*fate{}
	for _, row := range rows[1:] {
		column := func(name string) string { return row[slices.Index(rows[0], name)] }
		f := by[column("backend")]
		if f == nil {
			f = &fate{}
			by[column("backend")] = f
		}
		f.asked++
		if column("latency_s") == "" {
			f.unanswered++
			continue
		}
		sent, err := time.Parse(time.RFC3339Nano, column("time"))
		if err != nil {
			t.Fatal(err)
		}
		latency, duplicates, size := number(t, column("latency_s")), number(t, column("duplicates")), number(t, column("answer_ip_bytes"))
		f.latencies = append(f.latencies, latency)
		f.duplicates += int(duplicates)
		at := sent.Add(time.Duration(latency * float64(time.Second)))
		if f.first.IsZero() || at.Before(f.first) {
			f.first = at
		} else {
			f.bits += 8 * (size + 14)
		}
		if at.After(f.last) {
			f.last = at
		}
	}
	return by
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
