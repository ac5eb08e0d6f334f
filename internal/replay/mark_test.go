package replay

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lvslab/lvslab/internal/agent/proto"
	"github.com/lvslab/lvslab/internal/ipvsmodel"
)

func byMark(scheduler string, weights ...int) proto.IPVSService {
	s := service(scheduler, "udp", weights...)
	s.IPVSKey = proto.IPVSKey{FWMark: 7}
	return s
}

// TestByMark: one service for six addresses, whatever the scheduler.
func TestByMark(t *testing.T) {
	for _, scheduler := range []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"} {
		in := newWorld(t, byMark(scheduler, 1, 3, 2)).ports(18, 54).read()
		r := Run(in)
		if r.Scope != Packets || r.Differs != "" || len(r.Limits) > 0 || *r.Rows != 18 || *r.RowsDiffer != 0 {
			t.Fatalf("%s: %s %q %q", scheduler, r.Scope, r.Limits, r.Differs)
		}
		// Several clients: the first comer decides what lblc has for an address.
		in.Clients = 2
		want := Counts
		switch scheduler {
		case "dh", "sh", "mh":
			want = Packets
		case "lblc", "lblcr":
			want = None
		}
		if r := Run(in); r.Scope != want || r.Differs != "" {
			t.Errorf("%s with two clients: %s %q, want %s", scheduler, r.Scope, r.Limits, want)
		}
	}
}

// TestTemplateOfAMark: its row has the mark for an address.
func TestTemplateOfAMark(t *testing.T) {
	s := byMark("rr", 1, 1)
	s.Persistence, s.Netmask = 60, 32
	in := newWorld(t, s).ports(6, 12).read()
	if r := Run(in); r.Scope != Packets || r.Differs != "" || *r.Rows != 7 || *r.RowsDiffer != 0 {
		t.Errorf("%s %q %q", r.Scope, r.Limits, r.Differs)
	}
	n := 0
	for _, c := range in.Conns {
		if MarkTemplate(c, 7) {
			n++
		}
	}
	if n != 1 || MarkTemplate(in.Conns[0], 0) {
		t.Errorf("%d templates in %+v", n, in.Conns)
	}
}

// TestMarkDiffers: what shows a difference can be replayed.
func TestMarkDiffers(t *testing.T) {
	in := newWorld(t, byMark("rr", 1, 1)).ports(6, 6).read()
	in.Packets[3].Backend = in.Names[netip.MustParseAddr("198.18.0.30")]
	in.Packets[4].Backend = in.Packets[3].Backend
	r := Run(in)
	if !strings.Contains(r.Differs, "by the model rr chooses") || !bytes.Contains(r.Script, []byte("# after: mark 7 ns[0] weight 1")) {
		t.Fatalf("%q\n%s", r.Differs, r.Script)
	}
	s, err := ipvsmodel.ParseScript(bytes.NewReader(txtar.Parse(r.Script).Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	if wrong, err := s.Run(); err != nil || len(wrong) > 0 {
		t.Errorf("%v, %q\n%s", err, wrong, r.Script)
	}
}
