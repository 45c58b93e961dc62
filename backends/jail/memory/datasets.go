package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/tlspu/keel/backends/jail"
)

type datasets struct{ m *Machine }

func (d datasets) List(context.Context) (list map[string]jail.Dataset, err error) {
	err = d.m.read("list datasets", func(s *state) {
		list = make(map[string]jail.Dataset, len(s.Datasets))
		for name, set := range s.Datasets {
			list[name] = jail.Dataset{Quota: set.Quota}
		}
	})
	return list, err
}

func (datasets) Path(name string) string { return "/" + name }

func (d datasets) Clone(_ context.Context, image, target string) error {
	return d.m.change("clone", target, func(s *state) error {
		if _, ok := s.Datasets[image]; !ok {
			return jail.ErrNotFound
		}
		if _, ok := s.Datasets[target]; ok {
			return jail.ErrExists
		}
		s.add(target, 0)
		return nil
	})
}

func (d datasets) Create(_ context.Context, name string, quota int64) error {
	return d.m.change("create dataset", name, func(s *state) error {
		if _, ok := s.Datasets[name]; !ok {
			s.add(name, quota)
		}
		return nil
	})
}

func (d datasets) SetQuota(_ context.Context, name string, quota int64) error {
	return d.m.change("set quota", name, func(s *state) error {
		set, ok := s.Datasets[name]
		if !ok {
			return jail.ErrNotFound
		}
		set.Quota = quota
		return nil
	})
}

func (d datasets) Destroy(_ context.Context, name string) error {
	return d.m.change("destroy dataset", name, func(s *state) error {
		set, ok := s.Datasets[name]
		switch {
		case !ok:
			return jail.ErrNotFound
		case set.Busy || s.used("/"+name):
			return jail.ErrBusy
		}
		delete(s.Datasets, name)
		return nil
	})
}

// add puts a dataset there, newer than all others.
func (s *state) add(name string, quota int64) {
	s.Serial++
	s.Datasets[name] = &dataset{Serial: s.Serial, Quota: quota}
}

// at finds the dataset that is mounted at path.
func (s *state) at(path string) (*dataset, bool) {
	d, ok := s.Datasets[strings.TrimPrefix(path, "/")]
	return d, ok && strings.HasPrefix(path, "/")
}

// used reports that a jail or a mount keeps the dataset at path busy.
func (s *state) used(path string) bool {
	for _, c := range s.Jails {
		if c.Root == path {
			return true
		}
	}
	return s.mountedBelow(path) || slices.ContainsFunc(s.Mounts, func(m jail.Mounted) bool { return m.Source == path })
}
