package compare

import "fmt"

// number is a fraction of whole numbers, so that nothing is rounded before it is
// compared; a count is one of 1.
type number struct{ n, of int64 }

func (a number) less(b number) bool { return a.n*b.of < b.n*a.of }

// value is what one run has of something.
type value struct {
	number
	slack int64 // how much more or less than n says the same
	part  bool  // of a whole, to be written in per cent
}

// millionths is a fraction of at most 1, rounded down.
func (a number) millionths() int64 { return a.n * 1_000_000 / a.of }

func count[N int | int64](n N) value { return value{number: number{int64(n), 1}} }

// span is the smallest and the largest of some values, and how far they reach with
// their slack.
type span struct {
	low, high number
	from, to  number
	part      bool
	some      bool
}

func (s *span) add(v value) {
	from, to := number{v.n - v.slack, v.of}, number{v.n + v.slack, v.of}
	if !s.some {
		*s = span{v.number, v.number, from, to, v.part, true}
		return
	}
	keep := func(to *number, n number, better bool) {
		if better {
			*to = n
		}
	}
	keep(&s.low, v.number, v.number.less(s.low))
	keep(&s.high, v.number, s.high.less(v.number))
	keep(&s.from, from, from.less(s.from))
	keep(&s.to, to, s.to.less(to))
}

func (s span) String() string {
	text := func(n number) string {
		if s.part {
			return fmt.Sprintf("%.2f %%", 100*float64(n.n)/float64(n.of))
		}
		return fmt.Sprint(n.n)
	}
	low, high := text(s.low), text(s.high)
	switch {
	case !s.some:
		return ""
	case low == high:
		return low
	}
	return low + " to " + high
}

// meets reports whether two spans have a number in common.
func (s span) meets(o span) bool {
	if !s.some || !o.some {
		return s.some == o.some
	}
	return !o.to.less(s.from) && !s.to.less(o.from)
}

// one reports whether all values were the same one.
func (s span) one() bool { return s.some && !s.low.less(s.high) }
