package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const accessACL = "system.posix_acl_access"

// aclOf returns an open file's ACL, nil if it has none.
func aclOf(fd int) (acl, error) {
	return aclBy(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, accessACL, buf) })
}

// aclAt returns the ACL of name in the folder dir, nil if it has none. Opening
// the file takes the right to read it, asking by way of proc takes none.
func aclAt(dir int, name string) (acl, error) {
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir, name)
	a, err := aclBy(func(buf []byte) (int, error) { return unix.Lgetxattr(path, accessACL, buf) })
	if !errors.Is(err, unix.ENOENT) {
		return a, err
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	return aclOf(fd)
}

func aclBy(get func([]byte) (int, error)) (acl, error) {
	value, err := attrBy(get)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseACL(value)
}

// attrBy reads one attribute, whatever its size.
func attrBy(get func([]byte) (int, error)) ([]byte, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := get(buf)
		if !errors.Is(err, unix.ERANGE) || size > 1<<20 {
			return buf[:max(n, 0)], err
		}
	}
}

// setACL gives an open file an ACL, and with it the mode it implies; nil takes
// away what the file inherited from its folder.
func setACL(fd int, a acl) error {
	if a != nil {
		return again(func() error { return unix.Fsetxattr(fd, accessACL, a.encode(), 0) })
	}
	err := again(func() error { return unix.Fremovexattr(fd, accessACL) })
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// carried reports which attributes a file's new content keeps: what the owner's
// programs put there, and the labels that say who may use the file. Those that
// vouch for the old content are not among them.
func carried(name string) bool {
	return strings.HasPrefix(name, "user.") || name == "security.selinux" || strings.HasPrefix(name, "security.SMACK64")
}

// carryAttrs copies attributes to a new file and names those it leaves behind.
func carryAttrs(from, to int) (left []string, err error) {
	list, err := attrBy(func(buf []byte) (int, error) { return unix.Flistxattr(from, buf) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	for name := range strings.SplitSeq(string(list), "\x00") {
		if name == "" || name == accessACL {
			continue
		}
		if !carried(name) {
			left = append(left, name)
			continue
		}
		if err := carryAttr(from, to, name); err != nil {
			return nil, fmt.Errorf("keep attribute %s: %w", name, err)
		}
	}
	slices.Sort(left)
	return left, nil
}

func carryAttr(from, to int, name string) error {
	value, err := attrBy(func(buf []byte) (int, error) { return unix.Fgetxattr(from, name, buf) })
	if err != nil {
		return err
	}
	got, err := attrBy(func(buf []byte) (int, error) { return unix.Fgetxattr(to, name, buf) })
	if err == nil && string(got) == string(value) {
		return nil // a label that the kernel gave it already
	}
	return again(func() error { return unix.Fsetxattr(to, name, value, 0) })
}

// capable reports that a program has capabilities, which it loses with its owner.
func capable(fd int) bool {
	n, err := unix.Fgetxattr(fd, "security.capability", nil)
	return err == nil && n > 0
}

// mountPoint reports whether something is mounted on a place. Linux before 5.8
// does not say so of files; there the rename fails.
func mountPoint(p *place) (bool, error) {
	var st unix.Statx_t
	err := again(func() error { return unix.Statx(p.dir.fd, p.name, statxFlags, unix.STATX_TYPE, &st) })
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		return false, err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	return p.info.IsDir() && p.info.id.dev != p.dir.id.dev, nil
}

// mountOf tells mounts of one file system apart. Linux before 5.8 does not.
func mountOf(fd int) uint64 {
	var st unix.Statx_t
	if err := again(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) }); err != nil {
		return 0
	}
	return st.Mnt_id
}

const statxFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT

// frozen says which flag keeps name in the folder dir from being changed, and
// with its name from being replaced; "" if none does. Here the two are one.
func frozen(dir int, name string, _ bool) string {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, statxFlags, unix.STATX_TYPE, &st); err != nil {
		return ""
	}
	switch {
	case st.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return "immutable (chattr -i to change it)"
	case st.Attributes&unix.STATX_ATTR_APPEND != 0:
		return "append-only (chattr -a to change it)"
	}
	return ""
}
