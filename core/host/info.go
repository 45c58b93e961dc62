package host

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes one file, folder, link or device. Mode's permission bits are
// what the owner, the owning group and everybody else may really do: where a
// file has a POSIX ACL, the group's are the owning group's own, not the mask
// that the system shows in their place.
type Info struct {
	UID, GID int
	Links    int  // names of the same file
	ACL      bool // a POSIX ACL with rights beyond Mode

	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
	id      fileID
	dir     fileID // in which it was found; zero where nobody asked
}

// fileID tells two files apart as long as one of them is open.
type fileID struct{ dev, ino uint64 }

// Name is the last component of the path that was asked for.
func (i Info) Name() string { return i.name }

// Size is in bytes; files of proc and sysfs have 0.
func (i Info) Size() int64 { return i.size }

// Mode holds type, permission, set-id and sticky bits.
func (i Info) Mode() fs.FileMode { return i.mode }

// ModTime is the time of the last change of content.
func (i Info) ModTime() time.Time { return i.modTime }

// IsDir reports whether it is a folder.
func (i Info) IsDir() bool { return i.mode.IsDir() }

// Sys is nil: what the system says beyond this stays in this package.
func (i Info) Sys() any { return nil }

// Kind names the type of file for messages: "a regular file", "a folder".
func (i Info) Kind() string {
	switch i.mode.Type() {
	case 0:
		return "a regular file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symlink"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}

// infoOf translates what the system says about name.
func infoOf(name string, st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode) & fs.ModePerm
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	default:
		mode |= fs.ModeDevice
	}
	if st.Mode&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if st.Mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return Info{
		UID: int(st.Uid), GID: int(st.Gid), Links: int(st.Nlink), //nolint:unconvert // the widths differ between systems
		name: name, size: st.Size, mode: mode,
		modTime: time.Unix(st.Mtim.Unix()),
		id:      idOf(st),
	}
}

func idOf(st *unix.Stat_t) fileID {
	return fileID{dev: uint64(st.Dev), ino: uint64(st.Ino)} //nolint:unconvert // the widths differ between systems
}
