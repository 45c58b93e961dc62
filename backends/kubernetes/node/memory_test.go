package node

import (
	"runtime/debug"
	"testing"
)

func TestSave_leavesItToTheOperator(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, tt := range []struct {
		gogc string
		want int
	}{{"77", 77}, {"", gcPercent}} {
		t.Setenv("GOGC", tt.gogc)
		save()
		if got := debug.SetGCPercent(77); got != tt.want {
			t.Errorf("with GOGC=%q the percentage is %d, want %d", tt.gogc, got, tt.want)
		}
	}
}
