package predict

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/lvslab/lvslab/internal/experiment"
	"github.com/lvslab/lvslab/internal/golden"
)

const rotate = "controls { rotate = true }\n"

// turning has treatments that keep to places, to backends and to neither.
func turning() string {
	return design(1, 0, "", "", rotate+`factor "scheduler" { values = ["rr", "wlc", "sed", "mh"] }
		factor "weights" { values = [[1, 1, 1], [3, 2, 1]] }`+"\n"+load20)
}

// TestTurning: when the list turns, columns are what the shares keep to, in the
// table, the picture and the JSON.
func TestTurning(t *testing.T) {
	p := of(t, turning())
	golden.Check(t, "turning.txt", p.Text()+"\n")
	picture := SVG([]Prediction{p})
	golden.Check(t, "turning.svg", picture)
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []Keeping{Place, Place, Place, Block, Place, Backend, Backend, Backend} {
		if got := p.Cells[i]; got.KeepsTo != want || (got.Turns != nil) != (want == Block) {
			t.Errorf("%s keeps to %s, want %s; %d turns", got.Treatment, got.KeepsTo, want, len(got.Turns))
		}
	}
	raw, err := json.Marshal(p.Cells[0])
	if err != nil || !strings.Contains(string(raw), `"keeps_to":"place"`) || strings.Contains(string(raw), `"turns"`) {
		t.Errorf("%s %v", raw, err)
	}
}

// What is said of the blocks is what a prediction of each block's own list says.
func TestTurnsAreThoseOfTheBlocks(t *testing.T) {
	top := topology(t, turning())
	e := top.Experiments[0]
	treatments, ds := experiment.Treatments(top, e)
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	whole, err := Of(top, e, treatments, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	still := e
	still.Controls = nil
	for i, tr := range treatments {
		for block, turned := range experiment.Turned(e, tr) {
			alone, err := Of(top, still, []experiment.Treatment{turned}, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			c, one := whole.Cells[i], alone.Cells[0]
			said := c.by(c.KeepsTo)
			if c.KeepsTo == Block {
				said = c.Turns[block].Shares
			}
			for k, s := range one.by(c.KeepsTo) {
				if !s.same(said[k]) || s.Weight != said[k].Weight && c.KeepsTo != Place {
					t.Errorf("%s, block %d: %+v, said %+v", tr.ID, block+1, s, said[k])
				}
			}
		}
	}
}

// Without a turn the columns are backends, as they are without rotate.
func TestOneBlockDoesNotTurn(t *testing.T) {
	p := of(t, strings.Replace(turning(), "iterations = 20", "iterations = 1", 1))
	text := p.Text()
	if strings.Contains(text, "place of the list") || !strings.Contains(text, "ns[0]  ns[1]  ns[2]") || !strings.Contains(text, "there is one block") {
		t.Error(text)
	}
}

// What draws is told by place, too, and by backend where weights are the backends'.
func TestTurningPorts(t *testing.T) {
	p := of(t, design(1, 0, "", "", rotate+`factor "scheduler" { values = ["sh", "mh"] }
		factor "flags" { values = [["sh-port", "mh-port"]] }
		factor "weights" { values = [[1, 1, 1], [3, 2, 1]] }`+"\n"+load20))
	golden.Check(t, "turning-ports.txt", p.Text()+"\n")
}
