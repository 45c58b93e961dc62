package cluster

import "fmt"

// A single is the store of a watch that is of one object. What a reflector calls
// is passed on to taken, which is given nil when there is none; synced says that
// the server was asked for all there is.
type single[T any] struct {
	taken func(object *T, synced bool)
}

// Add takes the object.
func (s *single[T]) Add(object any) error {
	t, ok := object.(*T)
	if !ok {
		return fmt.Errorf("a %T came for a %T", object, t)
	}
	s.taken(t, false)
	return nil
}

// Update is Add.
func (s *single[T]) Update(object any) error { return s.Add(object) }

// Delete notes that there is none.
func (s *single[T]) Delete(any) error {
	s.taken(nil, true)
	return nil
}

// Replace takes a list of one object, or of none.
func (s *single[T]) Replace(list []any, _ string) error {
	var t *T
	if len(list) > 0 {
		t, _ = list[0].(*T)
	}
	s.taken(t, true)
	return nil
}

// Resync has nothing to do.
func (s *single[T]) Resync() error { return nil }
