package host

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openTop are the flags for the root itself, in which links are followed.
const openTop = unix.O_PATH | unix.O_DIRECTORY

// openDir opens a folder to walk through: search permission is enough. A link
// is ENOTDIR.
func openDir(dir int, name string) (int, error) {
	return openat(dir, name, openTop|unix.O_NOFOLLOW, 0)
}

// readLink returns text and owner of one link; anything else is EINVAL.
func readLink(dir int, name string) (string, Info, error) {
	fd, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", Info{}, err
	}
	defer closeFD(fd)
	info, err := fstat(fd, name)
	if err != nil {
		return "", Info{}, err
	}
	if info.mode.Type() != linkType {
		return "", Info{}, unix.EINVAL
	}
	text, err := readlinkat(fd, "")
	return text, info, err
}

// procRoot is the inode of the top folder of every proc file system.
const procRoot = 1

// magicLinks reports whether the links in a folder are no text to be walked:
// those of proc, but for self, mounts and their like in its top folder.
func magicLinks(f folder) (bool, error) {
	kind, err := fsType(f.fd)
	return kind == unix.PROC_SUPER_MAGIC && f.id.ino != procRoot, err
}

// onProc reports whether a folder was made by proc, where no user can put
// anything.
func onProc(f folder) bool {
	kind, err := fsType(f.fd)
	return err == nil && kind == unix.PROC_SUPER_MAGIC
}

// kernelFS names the kernel's own file system that a folder is on, "" for any
// other: files there are switches, and are never replaced.
func kernelFS(f folder) (string, error) {
	kind, err := fsType(f.fd)
	if err != nil {
		return "", err
	}
	switch kind {
	case unix.PROC_SUPER_MAGIC:
		return "proc", nil
	case unix.SYSFS_MAGIC:
		return "sysfs", nil
	case unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return "cgroup", nil
	case unix.DEVPTS_SUPER_MAGIC:
		return "devpts", nil
	case unix.DEBUGFS_MAGIC:
		return "debugfs", nil
	case unix.TRACEFS_MAGIC:
		return "tracefs", nil
	case unix.SECURITYFS_MAGIC:
		return "securityfs", nil
	case unix.SELINUX_MAGIC:
		return "selinuxfs", nil
	case unix.EFIVARFS_MAGIC:
		return "efivarfs", nil
	case unix.BPF_FS_MAGIC:
		return "bpf", nil
	}
	return "", nil
}

// readOnly reports that nothing can be written where an open folder is.
func readOnly(f folder) (bool, error) {
	var st unix.Statfs_t
	err := again(func() error { return unix.Fstatfs(f.fd, &st) })
	return st.Flags&unix.ST_RDONLY != 0, err
}

func fsType(fd int) (int64, error) {
	var st unix.Statfs_t
	err := again(func() error { return unix.Fstatfs(fd, &st) })
	return int64(st.Type), err //nolint:unconvert // narrower on other architectures
}

// renameNew renames unless the new name is taken: EEXIST. A file system that
// cannot tell in one call is asked first.
func renameNew(oldDir int, oldName string, newDir int, newName string) error {
	err := unix.Renameat2(oldDir, oldName, newDir, newName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return renameUnlessThere(oldDir, oldName, newDir, newName)
	}
	return err
}
