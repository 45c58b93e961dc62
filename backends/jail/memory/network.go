package memory

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/tlspu/keel/backends/jail"
)

type network struct{ m *Machine }

func (n network) List(context.Context) (net jail.Net, err error) {
	err = n.m.read("list network", func(s *state) {
		net = jail.Net{Bridges: map[string][]netip.Prefix{}, Links: maps.Clone(s.Links)}
		for name, addresses := range s.Bridges {
			net.Bridges[name] = slices.Clone(addresses)
		}
	})
	return net, err
}

func (n network) EnsureBridge(_ context.Context, name string) error {
	return n.m.change("ensure bridge", name, func(s *state) error {
		if _, ok := s.Bridges[name]; !ok {
			s.Bridges[name] = []netip.Prefix{}
		}
		return nil
	})
}

func (n network) Attach(_ context.Context, l jail.Link) error {
	return n.m.change("attach", l.Name, func(s *state) error {
		addresses, ok := s.Bridges[l.Bridge]
		if !ok {
			return jail.ErrNotFound
		}
		if _, ok := s.Jails[l.Jail]; !ok {
			return jail.ErrNotFound
		}
		there, ok := s.Links[l.Name]
		if slices.Contains(s.Foreign, l.Name) || ok && (there.Jail != l.Jail || there.Bridge != "" && there.Bridge != l.Bridge) {
			return jail.ErrExists
		}
		if !slices.Contains(addresses, l.Gateway) {
			s.Bridges[l.Bridge] = append(addresses, l.Gateway)
		}
		s.Links[l.Name] = l
		return nil
	})
}

func (n network) Detach(_ context.Context, link string) error {
	return n.m.change("detach", link, func(s *state) error {
		delete(s.Links, link)
		return nil
	})
}
