package host

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What acl(3) and sys/acl.h say of ACLs.
const (
	aclTypeAccess = 0x2
	aclTypeNFS4   = 0x4
	aclMax        = 254
	plainEntries  = 3 // owner, group, everybody: a mode says the same
)

type rawACL struct {
	max, count uint32
	_          [4]int32
	entries    [aclMax]struct {
		tag, id, perm uint32
		kind, flags   uint16
	}
}

// aclOf refuses a file that has an ACL: it could not be kept, and a mode cannot
// say the same.
func aclOf(fd int) (acl, error) {
	for _, kind := range []uintptr{aclTypeAccess, aclTypeNFS4} {
		raw := rawACL{max: aclMax}
		_, _, errno := unix.Syscall(unix.SYS___ACL_GET_FD, uintptr(fd), kind, uintptr(unsafe.Pointer(&raw)))
		switch {
		case errno == unix.EINVAL || errno == unix.EOPNOTSUPP:
			continue // not of this kind
		case errno != 0:
			return nil, fmt.Errorf("read ACL: %w", errno)
		case raw.count > plainEntries:
			return nil, errors.New("has an ACL, which would be lost (setfacl -b takes it away)")
		}
	}
	return nil, nil
}

// aclAt is nil: the mode of a file with an ACL is not refined here.
func aclAt(int, string) (acl, error) { return nil, nil }

// setACL makes sure that a new file inherited no ACL.
func setACL(fd int, _ acl) error {
	_, err := aclOf(fd)
	return err
}

// carryAttrs copies a file's user attributes to a new file.
func carryAttrs(from, to int) (left []string, err error) {
	size, err := unix.FlistxattrNS(from, unix.EXTATTR_NAMESPACE_USER, nil)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	list := make([]byte, size)
	if size, err = unix.FlistxattrNS(from, unix.EXTATTR_NAMESPACE_USER, list); err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	for list = list[:size]; len(list) > 0; { // each is a length and a name
		n := 1 + int(list[0])
		if n > len(list) {
			return nil, errors.New("list attributes: the list is cut off")
		}
		name := "user." + string(list[1:n])
		list = list[n:]
		if err := carryAttr(from, to, name); err != nil {
			return nil, fmt.Errorf("keep attribute %s: %w", name, err)
		}
	}
	return nil, nil
}

func carryAttr(from, to int, name string) error {
	size, err := unix.Fgetxattr(from, name, nil)
	if err != nil {
		return err
	}
	value := make([]byte, size)
	if size, err = unix.Fgetxattr(from, name, value); err != nil {
		return err
	}
	return unix.Fsetxattr(to, name, value[:size], 0)
}

// capable is false: there are no capabilities here.
func capable(int) bool { return false }

// mountPoint reports whether something is mounted on a place.
func mountPoint(p *place) (bool, error) {
	return p.info.id.dev != p.dir.id.dev, nil
}

// mountOf is 0: every mount has a device number of its own.
func mountOf(int) uint64 { return 0 }

// The flags of chflags(2) that keep a file as it is.
const (
	ufImmutable, ufAppend, ufNoUnlink = 0x2, 0x4, 0x10
	sfImmutable, sfAppend, sfNoUnlink = 0x20000, 0x40000, 0x100000
)

// frozen says which flag keeps name in the folder dir from being changed, and
// with its name from being replaced; "" if none does.
func frozen(dir int, name string, replaced bool) string {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ""
	}
	for _, f := range []struct {
		bits uint32
		name string
	}{
		{ufImmutable, "uchg"}, {sfImmutable, "schg"},
		{ufAppend, "uappnd"}, {sfAppend, "sappnd"},
		{ufNoUnlink, "uunlnk"}, {sfNoUnlink, "sunlnk"},
	} {
		if st.Flags&f.bits != 0 && (replaced || f.bits&(ufNoUnlink|sfNoUnlink) == 0) {
			return fmt.Sprintf("flagged %s (chflags no%s to change it)", f.name, f.name)
		}
	}
	return ""
}
