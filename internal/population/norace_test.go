//go:build !race

package population

import "time"

// predictWithin is what the example's populations may take together, of one
// processor: 1 s on an idle one of 2026. slower divides the packets.
const (
	slower        = 1
	predictWithin = 5 * time.Second
)
