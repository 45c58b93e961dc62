package memory

import (
	"context"
	"maps"

	"github.com/tlspu/keel/backends/jail"
)

type jails struct{ m *Machine }

func (j jails) List(context.Context) (list map[string]jail.Running, err error) {
	err = j.m.read("list jails", func(s *state) {
		list = make(map[string]jail.Running, len(s.Jails))
		for name, c := range s.Jails {
			list[name] = jail.Running{Root: c.Root, Alive: c.Alive, Exit: c.Exit}
		}
	})
	return list, err
}

func (j jails) Limits(context.Context) (list map[string]jail.Limits, err error) {
	err = j.m.read("list limits", func(s *state) { list = maps.Clone(s.Limits) })
	return list, err
}

func (j jails) Create(_ context.Context, c jail.Cell) error {
	return j.m.change("create", c.Name, func(s *state) error {
		if _, ok := s.Jails[c.Name]; ok {
			return jail.ErrExists
		}
		if _, ok := s.at(c.Root); !ok {
			return jail.ErrNotFound
		}
		s.Jails[c.Name] = &cell{Root: c.Root}
		return nil
	})
}

func (j jails) Start(_ context.Context, name string, _ []string) error {
	return j.m.change("start", name, func(s *state) error {
		c, ok := s.Jails[name]
		if !ok {
			return jail.ErrNotFound
		}
		c.Alive, c.Exit, c.Starts = true, nil, c.Starts+1
		return nil
	})
}

// Destroy leaves the link of the jail behind, on its bridge and without an
// address, as a host does.
func (j jails) Destroy(_ context.Context, name string) error {
	return j.m.change("destroy jail", name, func(s *state) error {
		if _, ok := s.Jails[name]; !ok {
			return jail.ErrNotFound
		}
		delete(s.Jails, name)
		for key, l := range s.Links {
			if l.Jail == name {
				s.Links[key] = jail.Link{Name: l.Name, Jail: l.Jail, Bridge: l.Bridge}
			}
		}
		return nil
	})
}

func (j jails) SetLimits(_ context.Context, name string, l jail.Limits) error {
	return j.m.change("set limits", name, func(s *state) error {
		if _, ok := s.Jails[name]; !ok {
			return jail.ErrNotFound
		}
		s.Limits[name] = l
		return nil
	})
}

func (j jails) RemoveLimits(_ context.Context, name string) error {
	return j.m.change("remove limits", name, func(s *state) error {
		delete(s.Limits, name)
		return nil
	})
}
