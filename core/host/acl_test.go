package host

import (
	"slices"
	"testing"
)

// FuzzParseACL takes any attribute value.
func FuzzParseACL(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{2, 0, 0, 0})
	f.Add(acl{{aclUserObj, 6, 0}, {aclUser, 4, 1}, {aclGroupObj, 4, 0}, {aclMask, 4, 0}, {aclOther, 0, 0}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseACL(b)
		if err != nil {
			return
		}
		if !slices.Equal(a.encode(), b) {
			t.Errorf("%x becomes %x", b, a.encode())
		}
	})
}
