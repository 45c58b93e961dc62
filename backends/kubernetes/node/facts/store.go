package facts

import (
	"maps"
	"slices"
	"sync"
)

// A Store holds the newest facts. The zero value holds none. It is safe for
// concurrent use: what goes in and what comes out are copies.
type Store struct {
	mu    sync.RWMutex
	facts Facts
	ready bool
}

// Set replaces the facts.
func (s *Store) Set(f Facts) {
	f = f.Clone()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts, s.ready = f, true
}

// Get gives the newest facts; ready is false before the first Set.
func (s *Store) Get() (f Facts, ready bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.facts.Clone(), s.ready
}

// Clone is a copy that shares nothing with f.
func (f *Facts) Clone() Facts {
	c := *f
	c.Node.Addresses = slices.Clone(f.Node.Addresses)
	c.Node.Labels = maps.Clone(f.Node.Labels)
	c.Node.Conditions = maps.Clone(f.Node.Conditions)
	c.Node.Capacity = maps.Clone(f.Node.Capacity)
	c.Node.Allocatable = maps.Clone(f.Node.Allocatable)
	c.Unread = maps.Clone(f.Unread)
	return c
}
