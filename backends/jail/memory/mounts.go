package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/tlspu/keel/backends/jail"
)

type mounts struct{ m *Machine }

func (n mounts) List(context.Context) (list []jail.Mounted, err error) {
	err = n.m.read("list mounts", func(s *state) { list = slices.Clone(s.Mounts) })
	return list, err
}

func (n mounts) Mount(_ context.Context, source, root, path string) error {
	target := root + path
	return n.m.change("mount", target, func(s *state) error {
		for _, there := range s.Mounts {
			switch {
			case there.Target != target:
			case there.Source == source:
				return nil
			default:
				return jail.ErrExists
			}
		}
		for _, folder := range []string{source, root} {
			if _, ok := s.at(folder); !ok {
				return jail.ErrNotFound
			}
		}
		s.Mounts = append(s.Mounts, jail.Mounted{Source: source, Target: target})
		return nil
	})
}

func (n mounts) Unmount(_ context.Context, target string) error {
	return n.m.change("unmount", target, func(s *state) error {
		i := slices.IndexFunc(s.Mounts, func(m jail.Mounted) bool { return m.Target == target })
		switch {
		case i < 0:
			return jail.ErrNotMounted
		case s.mountedBelow(target):
			return jail.ErrBusy
		}
		s.Mounts = slices.Delete(s.Mounts, i, i+1)
		return nil
	})
}

// mountedBelow reports that something is mounted inside path.
func (s *state) mountedBelow(path string) bool {
	return slices.ContainsFunc(s.Mounts, func(m jail.Mounted) bool { return strings.HasPrefix(m.Target, path+"/") })
}
