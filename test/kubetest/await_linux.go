package kubetest

import (
	"testing"
	"time"
)

// patience is long: a machine that is busy with something else may stand still for a
// minute.
const patience = 3 * time.Minute

// Await waits for a condition. It ends the test, naming what, when that takes too
// long.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !ok(); {
		select {
		case <-deadline:
			t.Fatalf("%s: did not happen", what)
		case <-tick.C:
		}
	}
}
