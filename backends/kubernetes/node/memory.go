package node

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much the heap of an agent that stays may grow between two garbage
// collections. Go's own 100 takes 3 MiB more; an agent allocates so little that
// collecting more often costs nothing that can be measured.
const gcPercent = 50

// save has this process take less memory, unless an operator says how much by GOGC.
func save() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
