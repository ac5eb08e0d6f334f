//go:build race

package population

import "time"

// The race detector makes a prediction some eight times as long, and the drawing
// of a million clients is most of what an eighth of the packets leaves: 4 s.
const (
	slower        = 8
	predictWithin = 20 * time.Second
)
