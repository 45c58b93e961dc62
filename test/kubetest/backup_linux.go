package kubetest

import (
	"os"
	"testing"
)

// Backup stops etcd for a moment and copies what it holds. restore puts that back,
// as after an accident: what was written since is gone, and resourceVersions begin
// again where they were. Both processes are up when either returns.
func (s *Server) Backup(t testing.TB) (restore func()) {
	t.Helper()
	copied := s.path("backup")
	stopped := func(do func() error) {
		t.Helper()
		s.stop()
		err := do()
		for _, d := range []*Daemon{s.Etcd, s.API} {
			if err == nil {
				err = d.Start(t.Context())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stopped(func() error { return os.CopyFS(copied, os.DirFS(s.path("etcd"))) })
	return func() {
		t.Helper()
		stopped(func() error {
			if err := os.RemoveAll(s.path("etcd")); err != nil {
				return err
			}
			return os.Rename(copied, s.path("etcd"))
		})
	}
}
