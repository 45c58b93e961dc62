package host

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
)

// An acl is a POSIX access list as Linux keeps it; nil is none.
type acl []aclEntry

// An aclEntry gives rights, as three bits, to whom tag and id name.
type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// The tags of acl(5).
const (
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20
)

const aclVersion = 2

// parseACL reads the value of system.posix_acl_access.
func parseACL(b []byte) (acl, error) {
	if len(b) < 4 || (len(b)-4)%8 != 0 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, errors.New("the ACL is in a form that is not known")
	}
	var a acl
	for b = b[4:]; len(b) > 0; b = b[8:] {
		a = append(a, aclEntry{
			tag:  binary.LittleEndian.Uint16(b),
			perm: binary.LittleEndian.Uint16(b[2:]),
			id:   binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return a, nil
}

// encode is the inverse of parseACL.
func (a acl) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range a {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// mask is what the owning group and everybody named may do at most.
func (a acl) mask() uint16 {
	for _, e := range a {
		if e.tag == aclMask {
			return e.perm
		}
	}
	return 7
}

// perm is what owner, owning group and others may really do.
func (a acl) perm() fs.FileMode {
	var m fs.FileMode
	for _, e := range a {
		switch e.tag {
		case aclUserObj:
			m |= fs.FileMode(e.perm) << 6
		case aclGroupObj:
			m |= fs.FileMode(e.perm&a.mask()) << 3
		case aclOther:
			m |= fs.FileMode(e.perm)
		}
	}
	return m
}

// with gives owner, owning group and others the rights in perm. Everybody named
// keeps what he really had: where the mask must grow for the owning group, what
// it kept from the others is taken out of their entries.
func (a acl) with(perm fs.FileMode) acl {
	limit, group := a.mask(), uint16(perm>>3&7)
	grows := group&^limit != 0
	mask, out := group, slices.Clone(a)
	for i, e := range out {
		switch e.tag {
		case aclUserObj:
			out[i].perm = uint16(perm >> 6 & 7)
		case aclGroupObj:
			out[i].perm = group
		case aclOther:
			out[i].perm = uint16(perm & 7)
		case aclUser, aclGroup:
			if grows {
				out[i].perm &= limit
				mask |= out[i].perm
			}
		}
	}
	if i := slices.IndexFunc(out, func(e aclEntry) bool { return e.tag == aclMask }); i >= 0 && grows {
		out[i].perm = mask
	}
	return out
}

// shown is the mode that the system shows for it: the mask, if it has one, stands
// in the group's place.
func (a acl) shown() fs.FileMode {
	for _, e := range a {
		if e.tag == aclMask {
			return a.perm()&^0o070 | fs.FileMode(e.perm)<<3
		}
	}
	return a.perm()
}
