package plugin

import "slices"

// Nearest is the one of names that a person most likely meant by name, or ""
// when none is close: a third of the letters may differ, and one more.
func Nearest(name string, names []string) string {
	return nearest(name, names, len(name)/3+2)
}

// Typo is the one of names that is at most two letters from name, or "". Of names
// with two letters that would be any other word: they are left out.
func Typo(name string, names []string) string {
	long := slices.DeleteFunc(slices.Clone(names), func(candidate string) bool { return len(candidate) <= 2 })
	return nearest(name, long, 3)
}

// nearest is the first of the names that differ least from name, in fewer letters
// than least, or "".
func nearest(name string, names []string, least int) string {
	best := ""
	for _, candidate := range names {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the letters to add, drop, change or swap with the next one to
// make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
