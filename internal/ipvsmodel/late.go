package ipvsmodel

import "time"

// jiffy is the kernel's tick at HZ=250, as Debian builds it.
const jiffy = 4 * time.Millisecond

// Late is by how much an entry may outlive its timeout: the kernel's timer
// wheel files a timer in a slot of its level and never fires early, so a long
// one may be late by a slot (kernel/time/timer.c, calc_wheel_index). It is 16 s
// for UDP's default of 300 s. The model itself lets entries end on time, since
// where the slots begin depends on when the machine was booted.
func Late(timeout time.Duration) time.Duration {
	const levels = 9
	ticks, width := int64(timeout/jiffy), int64(1)
	for level := 1; level < levels && ticks >= 63*width; level++ {
		width *= 8
		if ticks < 63*width {
			break
		}
	}
	return time.Duration(width) * jiffy
}
