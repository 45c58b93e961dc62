package host

import (
	"io/fs"
	"syscall"
	"time"
)

// ChangeTime is when anything about a file that os described was last changed:
// unlike the time of its content nobody can set it. It is zero where info is
// from elsewhere.
func ChangeTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctimespec.Unix())
}
