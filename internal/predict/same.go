package predict

// group numbers the treatments that are one treatment.
func (p *Prediction) group() {
	numbers := map[string]int{}
	members := map[int][]string{}
	for i := range p.Cells {
		c := &p.Cells[i]
		n, known := numbers[c.signature]
		if !known {
			n = len(numbers) + 1
			numbers[c.signature] = n
		}
		c.Group = n
		members[n] = append(members[n], c.Treatment)
	}
	for n := 1; n <= len(numbers); n++ {
		if len(members[n]) > 1 {
			p.Same = append(p.Same, members[n])
		}
	}
}
