package lang

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads a duration; why says what is wrong with it.
func parseDuration(s string, low, high time.Duration) (d time.Duration, why string) {
	d, err := time.ParseDuration(s)
	if err != nil {
		if _, nerr := strconv.ParseFloat(s, 64); nerr == nil {
			return 0, "the unit is missing"
		}
		return 0, "it is not a number with a unit"
	}
	switch {
	case d < low && low == 0:
		return 0, "it is negative"
	case d < low:
		return 0, fmt.Sprintf("the least is %s", low)
	case d > high:
		return 0, fmt.Sprintf("the most is %s", high)
	}
	return d, ""
}

var sizeForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([A-Za-z]+)$`)

var sizeUnits = map[string]int64{
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 1e3, "mb": 1e6, "gb": 1e9,
}

// parseSize reads "256MiB" into bytes.
func parseSize(s string) (n int64, why string) {
	m := sizeForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, "it is not a number with a unit"
	}
	unit, ok := sizeUnits[strings.ToLower(m[2])]
	if !ok {
		return 0, fmt.Sprintf("%q is not a unit of size", m[2])
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil || f*float64(unit) > 1<<50 {
		return 0, "it is far too large"
	}
	return int64(math.Round(f * float64(unit))), ""
}

var rateUnits = map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "bps": 1, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9}

// parseRate reads "10Mbit" into bits a second. Both 10Mbit and 10Mbps mean
// bits here; tc's reading of "bps" as bytes is a trap that lvslab does not keep.
func parseRate(s string) (bits int64, why string) {
	m := sizeForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, "it is not a number with a unit"
	}
	unit, ok := rateUnits[strings.ToLower(m[2])]
	if !ok {
		return 0, fmt.Sprintf("%q is not a unit of bits a second", m[2])
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil || f*unit < 1 || f*unit > 1e12 {
		return 0, "it is out of range"
	}
	return int64(f * unit), ""
}

// parseFraction reads 0.01 or "1%" as a fraction of 1.
func parseFraction(s string) (f float64, why string) {
	percent := strings.HasSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%")), 64)
	if err != nil {
		return 0, "it is not a number"
	}
	if percent {
		f /= 100
	}
	if !(f >= 0 && f <= 1) {
		return 0, "a share lies between 0 and 1, or 0% and 100%"
	}
	return f, ""
}

// exactInt reads a cty number as an int.
func exactInt(f *big.Float) (int, bool) {
	n, acc := f.Int64()
	return int(n), acc == big.Exact
}
