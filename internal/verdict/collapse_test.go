package verdict

import "testing"

func TestTreatmentsThatOthersStandFor(t *testing.T) {
	in := newScene([]string{"rr", "dh"}, 3).sockets20().build()
	expect(t, Judge(in), "collapsed", "")
	in.Facts.Treatments[0].StandsFor = []string{"scheduler=wrr", "scheduler=lc"}
	expect(t, Judge(in), "collapsed", Caution, "2 of 4 treatments were not run", "rr for wrr and lc")
	for i := range 20 {
		in.Facts.Treatments[1].StandsFor = append(in.Facts.Treatments[1].StandsFor, "scheduler=x"+string(rune('a'+i)))
	}
	expect(t, Judge(in), "collapsed", Caution, "22 of 24 treatments were not run", "2 treatments stand for them")
}
