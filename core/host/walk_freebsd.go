package host

import (
	"golang.org/x/sys/unix"
)

// openTop are the flags for the root itself, in which links are followed.
const openTop = unix.O_SEARCH | unix.O_DIRECTORY

// openDir opens a folder to walk through: search permission is enough. A link
// is ENOTDIR or EMLINK.
func openDir(dir int, name string) (int, error) {
	return openat(dir, name, openTop|unix.O_NOFOLLOW, 0)
}

// readLink returns text and owner of one link; anything else is EINVAL. The
// text of a link never changes, so a link that is the same before and after
// said what was read.
func readLink(dir int, name string) (string, Info, error) {
	for range 8 {
		var before, after unix.Stat_t
		if err := unix.Fstatat(dir, name, &before, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return "", Info{}, err
		}
		if before.Mode&unix.S_IFMT != unix.S_IFLNK {
			return "", Info{}, unix.EINVAL
		}
		text, err := readlinkat(dir, name)
		if err != nil {
			return "", Info{}, err
		}
		if err := unix.Fstatat(dir, name, &after, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return "", Info{}, err
		}
		if idOf(&before) == idOf(&after) && before.Uid == after.Uid && before.Ctim == after.Ctim && before.Gen == after.Gen {
			return text, infoOf(name, &before), nil
		}
	}
	return "", Info{}, unix.EBUSY
}

// magicLinks reports whether the links in a folder are no text to be walked.
func magicLinks(f folder) (bool, error) {
	kind, err := fsType(f.fd)
	return kind == "procfs" || kind == "linprocfs" || kind == "fdescfs", err
}

// onProc reports whether a folder was made by proc, where no user can put
// anything.
func onProc(f folder) bool {
	kind, err := fsType(f.fd)
	return err == nil && (kind == "procfs" || kind == "linprocfs")
}

// kernelFS names the kernel's own file system that a folder is on, "" for any
// other: files there are switches, and are never replaced.
func kernelFS(f folder) (string, error) {
	kind, err := fsType(f.fd)
	switch kind {
	case "procfs", "linprocfs", "linsysfs", "fdescfs", "devfs":
		return kind, err
	}
	return "", err
}

// readOnly reports that nothing can be written where an open folder is.
func readOnly(f folder) (bool, error) {
	var st unix.Statfs_t
	err := again(func() error { return unix.Fstatfs(f.fd, &st) })
	return st.Flags&unix.MNT_RDONLY != 0, err
}

func fsType(fd int) (string, error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}

// renameNew renames unless the new name is taken: EEXIST. FreeBSD cannot tell in
// one call.
func renameNew(oldDir int, oldName string, newDir int, newName string) error {
	return renameUnlessThere(oldDir, oldName, newDir, newName)
}
