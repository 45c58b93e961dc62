package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestView_Load(t *testing.T) {
	root := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, "file"), []byte("hello"), 0o640),
		os.WriteFile(filepath.Join(root, "empty"), nil, 0o600),
		os.Mkdir(filepath.Join(root, "directory"), 0o711),
		os.Symlink("/file", filepath.Join(root, "link")),
		os.Symlink("/lost", filepath.Join(root, "dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := OpenView(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	tests := []struct {
		name, path string
		follow     bool
		max        int64
		mode       fs.FileMode
		content    string
		isNil      bool
		wantErr    error
	}{
		{name: "a file", path: "/file", max: 5, mode: 0o640, content: "hello"},
		{name: "a file beyond max", path: "/file", max: 4, mode: 0o640, isNil: true},
		{name: "an empty file", path: "/empty", mode: 0o600},
		{name: "a directory", path: "/directory", max: 5, mode: fs.ModeDir | 0o711, isNil: true},
		{name: "a symlink, followed", path: "/link", follow: true, max: 5, mode: 0o640, content: "hello"},
		{name: "a symlink itself", path: "/link", max: 5, mode: fs.ModeSymlink | 0o777, isNil: true},
		{name: "a symlink to nothing, followed", path: "/dangling", follow: true, max: 5, isNil: true, wantErr: fs.ErrNotExist},
		{name: "a symlink to nothing itself", path: "/dangling", max: 5, mode: fs.ModeSymlink | 0o777, isNil: true},
		{name: "nothing", path: "/lost", max: 5, isNil: true, wantErr: fs.ErrNotExist},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, content, err := v.Load(tt.path, tt.follow, tt.max)
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("got error %v, want %v", err, tt.wantErr)
			}
			if string(content) != tt.content || (content == nil) != tt.isNil {
				t.Errorf("got content %q (nil: %v), want %q", content, content == nil, tt.content)
			}
			if err == nil && (info.Mode() != tt.mode || info.Name() != filepath.Base(tt.path) || info.UID != os.Geteuid() || info.ACL) {
				t.Errorf("got %+v, want mode %v", info, tt.mode)
			}
		})
	}
}
