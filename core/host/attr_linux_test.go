package host

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

func TestPut_owner(t *testing.T) {
	parts.Need(t, "root")
	tests := []struct {
		name     string
		old      bool // there is a file of 1001:1002, mode 0640
		content  string
		attr     Attr
		want     bool
		uid, gid int
		mode     fs.FileMode
	}{
		{"new", false, "x", Attr{}, true, 0, 0, 0o600},
		{"new, named", false, "x", Attr{UID: id(7), GID: id(8), Mode: mode(0o640)}, true, 7, 8, 0o640},
		{"kept", true, "new", Attr{}, true, 1001, 1002, 0o640},
		{"kept, mode named", true, "new", Attr{Mode: mode(0o604)}, true, 1001, 1002, 0o604},
		{"user named", true, "new", Attr{UID: id(7)}, true, 7, 1002, 0o640},
		{"group named", true, "new", Attr{GID: id(7)}, true, 1001, 7, 0o640},
		{"equal", true, "old", Attr{UID: id(1001), GID: id(1002)}, false, 1001, 1002, 0o640},
		{"equal, user named", true, "old", Attr{UID: id(7)}, true, 7, 1002, 0o640},
		{"equal, group named", true, "old", Attr{GID: id(7)}, true, 1001, 7, 0o640},
		{"equal, all named", true, "old", Attr{UID: id(7), GID: id(8), Mode: mode(0o444)}, true, 7, 8, 0o444},
		{"equal, private", true, "old", Attr{Private: true}, true, 0, 0, 0o600},
		{"equal, private and owner named", true, "old", Attr{Private: true, UID: id(1001), GID: id(1002), Mode: mode(0o640)}, false, 1001, 1002, 0o640},
		{"private", true, "new", Attr{Private: true}, true, 0, 0, 0o600},
		{"private, user named", true, "new", Attr{Private: true, UID: id(1001)}, true, 1001, 0, 0o600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, "f")
			if tt.old {
				create(t, file, "old", 0o640)
				must(t, os.Chown(file, 1001, 1002))
			}
			tree := openTree(t, root)
			for _, want := range []bool{tt.want, false} {
				changed, err := tree.Put(t.Context(), "/f", strings.NewReader(tt.content), tt.attr)
				if err != nil || changed != want {
					t.Fatalf("Put = %v, %v, want %v", changed, err, want)
				}
			}
			info, err := tree.Stat("/f")
			must(t, err)
			if info.UID != tt.uid || info.GID != tt.gid || info.Mode() != tt.mode {
				t.Errorf("file is %d:%d %v, want %d:%d %v", info.UID, info.GID, info.Mode(), tt.uid, tt.gid, tt.mode)
			}
		})
	}
}

// acls runs setfacl or getfacl.
func acls(t *testing.T, argv ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return strings.Fields(string(out))
}

func getfacl(t *testing.T, file string) string {
	return strings.Join(acls(t, "getfacl", "-cEp", "-n", file), " ")
}

func TestPut_acl(t *testing.T) {
	parts.Need(t, "root", "setfacl", "getfacl")
	const plain = "user::rw- group::r-- other::---"
	tests := []struct {
		name string
		perm fs.FileMode
		acl  string // of the old file
		attr Attr
		want string
	}{
		{"none", 0o640, "", Attr{}, plain},
		{"kept whole", 0o600, "u:1:r", Attr{}, "user::rw- user:1:r-- group::--- mask::r-- other::---"},
		{"kept with its mode", 0o600, "u:1:r", Attr{Mode: mode(0o600)}, "user::rw- user:1:r-- group::--- mask::r-- other::---"},
		{"kept, not effective", 0o600, "u:1:rw,m::r", Attr{}, "user::rw- user:1:rw- group::--- mask::r-- other::---"},
		{"mode inside the mask", 0o600, "u:1:rw,m::r", Attr{Mode: mode(0o640)}, "user::rw- user:1:rw- group::r-- mask::r-- other::---"},
		{"mode wider than the mask", 0o600, "u:1:rw,g:2:rx,m::r", Attr{Mode: mode(0o660)}, "user::rw- user:1:r-- group::rw- group:2:r-- mask::rw- other::---"},
		{"mode takes from the group only", 0o660, "u:1:rw", Attr{Mode: mode(0o600)}, "user::rw- user:1:rw- group::--- mask::rw- other::---"},
		{"mode gives to others", 0o600, "u:1:r", Attr{Mode: mode(0o644)}, "user::rw- user:1:r-- group::r-- mask::r-- other::r--"},
		{"fresh is a mode too", 0o600, "u:1:r", Attr{Fresh: 0o644}, "user::rw- user:1:r-- group::r-- mask::r-- other::r--"},
		{"private", 0o600, "u:1:r", Attr{Private: true}, "user::rw- group::--- other::---"},
		{"private with a mode", 0o600, "u:1:r", Attr{Private: true, Mode: mode(0o640)}, plain},
	}
	for _, content := range []string{"new", "old"} {
		for _, tt := range tests {
			if content == "old" && tt.attr.Fresh != 0 {
				continue // equal content keeps its mode
			}
			t.Run(tt.name+"/"+content, func(t *testing.T) {
				root := t.TempDir()
				file := filepath.Join(root, "f")
				create(t, file, "old", tt.perm)
				if tt.acl != "" {
					acls(t, "setfacl", "-m", tt.acl, file)
				}
				tree := openTree(t, root)
				before := getfacl(t, file)
				changed, err := tree.Put(t.Context(), "/f", strings.NewReader(content), tt.attr)
				must(t, err)
				got := getfacl(t, file)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("ACL (-want +got):\n%s", diff)
				}
				if want := content == "new" || before != got; changed != want {
					t.Errorf("changed = %v, want %v", changed, want)
				}
				if changed, err := tree.Put(t.Context(), "/f", strings.NewReader(content), tt.attr); err != nil || changed {
					t.Errorf("second Put = %v, %v", changed, err)
				}
				if tt.attr.Mode != nil {
					info, err := tree.Stat("/f")
					if err != nil || info.Mode() != *tt.attr.Mode {
						t.Errorf("Stat says %v, %v, want the mode that was put", info.Mode(), err)
					}
				}
			})
		}
	}
}

func TestPut_takesNoACLFromItsFolder(t *testing.T) {
	parts.Need(t, "root", "setfacl", "getfacl")
	root := t.TempDir()
	acls(t, "setfacl", "-d", "-m", "u:1:rw,g:2:rw", root)
	create(t, filepath.Join(root, "old"), "old", 0o600)
	acls(t, "setfacl", "-b", filepath.Join(root, "old"))
	tree := openTree(t, root)
	for _, name := range []string{"new", "old"} {
		_, err := tree.Put(t.Context(), name, strings.NewReader("x"), Attr{Mode: mode(0o660)})
		must(t, err)
		if got := getfacl(t, filepath.Join(root, name)); got != "user::rw- group::rw- other::---" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Values as the kernel takes them: a capability set (VFS_CAP_REVISION_2 with
// cap_net_bind_service), and what stands for signatures and labels.
var attributes = map[string]string{
	"security.capability":  "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	"security.ima":         "\x04\x04digest",
	"security.evm":         "\x03signature",
	"security.selinux":     "system_u:object_r:etc_t:s0\x00",
	"security.SMACK64":     "_",
	"security.SMACK64EXEC": "System",
	"user.comment":         strings.Repeat("c", 3000),
	"user.empty":           "",
	"trusted.mark":         "m",
}

func TestPut_attributes(t *testing.T) {
	parts.Need(t, "root")
	root := t.TempDir()
	file := filepath.Join(root, "f")
	create(t, file, "old", 0o755)
	for name, value := range attributes {
		must(t, unix.Setxattr(file, name, []byte(value), 0))
	}
	tree, said := noting(openTree(t, root))
	if _, err := tree.Put(t.Context(), "/f", strings.NewReader("old"), Attr{Mode: mode(0o755)}); err != nil || *said != nil {
		t.Fatalf("equal content: %v, said %q", err, *said)
	}
	_, err := tree.Put(t.Context(), "/f", strings.NewReader("new"), Attr{})
	must(t, err)
	kept := map[string]string{}
	for name := range attributes {
		buf := make([]byte, 4096)
		if n, err := unix.Getxattr(file, name, buf); err == nil {
			kept[name] = string(buf[:n])
		}
	}
	want := map[string]string{}
	for _, name := range []string{"security.selinux", "security.SMACK64", "security.SMACK64EXEC", "user.comment", "user.empty"} {
		want[name] = attributes[name]
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	wantSaid := []string{"/f: the new content does not have the old one's security.capability, security.evm, security.ima, trusted.mark"}
	if diff := cmp.Diff(wantSaid, *said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

func TestPut_setID(t *testing.T) {
	parts.Need(t, "root")
	const setuid = fs.ModeSetuid | 0o755
	tests := []struct {
		name    string
		content string
		attr    Attr
		want    fs.FileMode
		said    string
	}{
		{"equal content keeps them", "old", Attr{}, setuid, ""},
		{"a new owner does not", "old", Attr{UID: id(7)}, 0o755, "went with the old owner"},
		{"a mode has none", "old", Attr{Mode: mode(0o755)}, 0o755, ""},
		{"new content has none", "new", Attr{}, 0o755, "set-id bits"},
		{"new content with mode and owner", "new", Attr{Mode: mode(0o750), UID: id(7), GID: id(7)}, 0o750, "set-id bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			create(t, filepath.Join(root, "f"), "old", setuid)
			tree, said := noting(openTree(t, root))
			_, err := tree.Put(t.Context(), "/f", strings.NewReader(tt.content), tt.attr)
			must(t, err)
			info, err := tree.Stat("/f")
			if err != nil || info.Mode() != tt.want {
				t.Errorf("mode is %v, %v, want %v", info.Mode(), err, tt.want)
			}
			if text := strings.Join(*said, "\n"); !strings.Contains(text, tt.said) || tt.said == "" && text != "" {
				t.Errorf("said %q, want %q", text, tt.said)
			}
			if changed, err := tree.Put(t.Context(), "/f", strings.NewReader(tt.content), tt.attr); changed || err != nil {
				t.Errorf("second Put = %v, %v", changed, err)
			}
		})
	}
}

func TestPut_hardLinks(t *testing.T) {
	tests := []struct {
		name    string
		content string
		attr    Attr
		want    bool
	}{
		{"equal", "old", Attr{}, false},
		{"equal, other mode", "old", Attr{Mode: mode(0o600)}, true},
		{"other content", "new", Attr{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			file, other := filepath.Join(root, "f"), filepath.Join(root, "other")
			create(t, file, "old", 0o644)
			must(t, os.Link(file, other))
			tree, said := noting(openTree(t, root))
			for _, want := range []bool{tt.want, false} {
				changed, err := tree.Put(t.Context(), "/f", strings.NewReader(tt.content), tt.attr)
				if err != nil || changed != want {
					t.Fatalf("Put = %v, %v, want %v", changed, err, want)
				}
			}
			if told := slices.ContainsFunc(*said, func(s string) bool { return strings.Contains(s, "hard link(s)") }); told != tt.want {
				t.Errorf("said %q", *said)
			}
			info, err := os.Stat(other)
			must(t, err)
			if got, err := os.ReadFile(other); err != nil || string(got) != "old" || info.Mode() != 0o644 {
				t.Errorf("the other name changed: %q %v, %v", got, info.Mode(), err)
			}
		})
	}
}

func TestPut_parentsInASetgidFolder(t *testing.T) {
	parts.Need(t, "root")
	root := t.TempDir()
	must(t, os.Chown(root, 0, 50))
	must(t, os.Chmod(root, fs.ModeSetgid|0o775))
	tree := openTree(t, root)
	_, err := tree.Put(t.Context(), "/d/f", strings.NewReader("x"), Attr{Parents: 0o755})
	must(t, err)
	for path, want := range map[string]fs.FileMode{"/d": fs.ModeDir | fs.ModeSetgid | 0o755, "/d/f": 0o600} {
		info, err := tree.Stat(path)
		if err != nil || info.GID != 50 || info.Mode() != want {
			t.Errorf("%s is of group %d, %v, %v", path, info.GID, info.Mode(), err)
		}
	}
}

// noting collects what the calls of a Tree note.
func noting(tree *Tree) (*Tree, *[]string) {
	var said []string
	return tree.Noting(func(s string) { said = append(said, s) }), &said
}
