package host

import (
	"testing"

	"golang.org/x/sys/unix"
)

// mknod makes a device, pipe or socket.
func mknod(t testing.TB, path string, mode uint32, dev int) {
	t.Helper()
	must(t, unix.Mknod(path, mode, uint64(dev)))
}
