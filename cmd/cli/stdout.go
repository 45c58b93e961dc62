package cli

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// standardOutput is where results go. Go opens /dev/null, for reading and writing,
// in the place of a standard file that the process was started without: writing to
// it loses the output and succeeds.
func standardOutput() io.Writer {
	if nullReadWrite(1) && !nullReadWrite(0) { // a daemon's three are the same
		return noOutput{}
	}
	return os.Stdout
}

// noOutput fails, as a closed standard output does.
type noOutput struct{}

func (noOutput) Write([]byte) (int, error) {
	return 0, errors.New("it is closed, or /dev/null that is open for reading too; write to /dev/null with >/dev/null")
}

// nullReadWrite reports whether fd is /dev/null, open for reading and writing.
func nullReadWrite(fd int) bool {
	var null, it unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return errors.Join(err, unix.Stat(os.DevNull, &null), unix.Fstat(fd, &it)) == nil &&
		flags&unix.O_ACCMODE == unix.O_RDWR && it.Mode&unix.S_IFMT == unix.S_IFCHR && it.Rdev == null.Rdev
}
