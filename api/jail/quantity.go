package jail

import (
	"fmt"
	"math"
	"strconv"
)

// CPU is a number of cores in decimal: "2", "0.5".
type CPU string

// Bounds of what a limit can say: a hundredth of a core is one percent, and no
// machine has more than the most.
const (
	leastCores = 0.01
	mostCores  = 65536
)

// Percent is the limit in percent of one core, at least 1.
func (c CPU) Percent() (int64, error) {
	if !only(string(c), digits+".eE+-") {
		return 0, fmt.Errorf("is not a decimal number of cores, such as 2 or 0.5")
	}
	cores, err := strconv.ParseFloat(string(c), 64)
	switch {
	case octal(string(c)):
		return 0, fmt.Errorf("begins with 0, as an octal number does: write it without")
	case err != nil || math.IsInf(cores, 0) || math.IsNaN(cores):
		return 0, fmt.Errorf("is not a decimal number of cores, such as 2 or 0.5")
	case cores < leastCores:
		return 0, fmt.Errorf("must be at least %v cores", leastCores)
	case cores > mostCores:
		return 0, fmt.Errorf("must be at most %v cores", mostCores)
	}
	return int64(math.Round(cores * 100)), nil
}

func (CPU) number() {}

// Memory is a whole number of bytes with an optional K, M or G of either case,
// powers of 1024: "512M".
type Memory string

// Bytes is the amount, at least 1.
func (m Memory) Bytes() (int64, error) {
	number, unit := string(m), int64(1)
	if n := len(number) - 1; n >= 0 {
		switch number[n] {
		case 'k', 'K':
			number, unit = number[:n], 1<<10
		case 'm', 'M':
			number, unit = number[:n], 1<<20
		case 'g', 'G':
			number, unit = number[:n], 1<<30
		}
	}
	if number == "" || !only(number, digits) {
		return 0, fmt.Errorf("is not a whole number with an optional K, M or G, such as 512M")
	}
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case octal(number):
		return 0, fmt.Errorf("begins with 0, as an octal number does: write it without")
	case err != nil || n > math.MaxInt64/unit:
		return 0, fmt.Errorf("is larger than can be counted")
	case n == 0:
		return 0, fmt.Errorf("must be more than nothing")
	}
	return n * unit, nil
}

func (Memory) number() {}

// octal reports that a number begins with a 0 that only some readers skip.
func octal(number string) bool {
	return len(number) > 1 && number[0] == '0' && only(number[1:2], digits)
}
