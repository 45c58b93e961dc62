package file

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// An ACL is kept, and mode 0600 does not take away what it gives to others by
// name.
func TestEnsure_aclAndMode(t *testing.T) {
	parts.Need(t, "root", "setfacl", "getfacl")
	root := rooted(t, entry{path: "f", content: "old"})
	reachable(t, root)
	run(t, "setfacl", "-m", "u:daemon:r", root+"/f")
	ensure(t, root, map[string]string{"path": "/f", "content": "new", "mode": "0600"}, true)
	acl := run(t, "getfacl", "-cp", root+"/f")
	for _, want := range []string{"user::rw-", "user:daemon:r--\n", "group::---", "other::---"} {
		if !strings.Contains(acl, want) {
			t.Errorf("the ACL lacks %q:\n%s", want, acl)
		}
	}
	var err error
	as(t, 1, func() { _, err = os.ReadFile(root + "/f") })
	if err != nil {
		t.Errorf("daemon cannot read it any more: %v", err)
	}
	as(t, nobodyUID, func() { _, err = os.ReadFile(root + "/f") })
	if err == nil {
		t.Error("nobody can read it")
	}
}

// What an ACL gives away is not private, whatever the mode says.
func TestSensitive_dropsACL(t *testing.T) {
	parts.Need(t, "root", "setfacl", "getfacl")
	root := rooted(t, entry{path: "etc/motd", content: "hello\n", mode: 0o600})
	run(t, "setfacl", "-m", "u:daemon:r", root+"/etc/motd")
	if r := observe(t, secret(t, root, with())); r.Settled() {
		t.Errorf("a file that daemon may read is taken for private: %+v", r)
	}
	if changed, err := New().Ensure(t.Context(), secret(t, root, with())); !changed || err != nil {
		t.Errorf("got %v, %v", changed, err)
	}
	if acl := run(t, "getfacl", "-cp", root+"/etc/motd"); strings.Contains(acl, "daemon") {
		t.Errorf("the ACL is still there:\n%s", acl)
	}
	if r := observe(t, secret(t, root, with())); !r.Settled() {
		t.Errorf("not private afterwards: %+v", r)
	}
}

// Owners come from the root's own lists, not from this machine's.
func TestEnsure_owner(t *testing.T) {
	parts.Need(t, "root")
	list := []entry{
		{path: "etc/passwd", content: "root:x:0:0::/:/bin/sh\nweb:x:4711:4712::/:/bin/sh\ndaemon:x:4713:1::/:/bin/sh\n"},
		{path: "etc/group", content: "root:x:0:\nweb:x:4712:\n"},
	}
	tests := []struct {
		name         string
		before       []entry
		owner, group string
		uid, gid     uint32
	}{
		{"by name", nil, "web", "web", 4711, 4712},
		{"a name that this machine knows otherwise", nil, "daemon", "root", 4713, 0},
		{"by number", nil, "4711", "99", 4711, 99},
		{"only the group", nil, "", "web", 0, 4712},
		{"equal content", []entry{{path: "f", content: "x", mode: 0o640}}, "web", "web", 4711, 4712},
		{"other content", []entry{{path: "f", content: "y", mode: 0o640}}, "web", "", 4711, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := rooted(t, append(tt.before, list...)...)
			params := map[string]string{"path": "/f", "content": "x"}
			if tt.owner != "" {
				params["owner"] = tt.owner
			}
			if tt.group != "" {
				params["group"] = tt.group
			}
			ensure(t, root, params, true)
			var st unix.Stat_t
			check(t, unix.Stat(root+"/f", &st))
			if st.Uid != tt.uid || st.Gid != tt.gid {
				t.Errorf("it belongs to %d:%d, want %d:%d", st.Uid, st.Gid, tt.uid, tt.gid)
			}
		})
	}
}

// A replaced file keeps its owner unless another is named; a secret one does not.
func TestEnsure_keepsOwner(t *testing.T) {
	parts.Need(t, "root")
	root := rooted(t, entry{path: "f", content: "old", mode: 0o600})
	check(t, os.Chown(root+"/f", 1, 1))
	params := map[string]string{"path": "/f", "content": "new", "mode": "0600"}
	owner := func(want uint32) {
		t.Helper()
		var st unix.Stat_t
		check(t, unix.Stat(root+"/f", &st))
		if st.Uid != want || st.Gid != want {
			t.Errorf("it belongs to %d:%d, want %d", st.Uid, st.Gid, want)
		}
	}
	ensure(t, root, params, true)
	owner(1)
	for _, ids := range [][2]int{{1, 1}, {1, 0}, {0, 1}} {
		check(t, os.Chown(root+"/f", ids[0], ids[1]))
		if r := observe(t, secret(t, root, params)); r.Settled() {
			t.Errorf("a secret that belongs to %v is taken for private: %+v", ids, r)
		}
		if changed, err := New().Ensure(t.Context(), secret(t, root, params)); !changed || err != nil {
			t.Errorf("got %v, %v", changed, err)
		}
		owner(0)
		if r := observe(t, secret(t, root, params)); !r.Settled() {
			t.Errorf("not private afterwards: %+v", r)
		}
	}
}
