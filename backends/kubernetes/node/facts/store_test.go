package facts

import (
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// full holds a value in every field.
func full(t *testing.T, text string) Facts {
	t.Helper()
	f := Facts{Unread: map[string]string{"Node": text}}
	each(&f, func(_, field reflect.StructField, value reflect.Value) {
		switch v := value.Addr().Interface().(type) {
		case *string:
			*v = text
		case *map[string]string:
			*v = map[string]string{"a": text}
		case *[]Address:
			*v = []Address{{text, text}}
		default:
			t.Fatalf("%s has a type that Clone and Lookup do not know", field.Name)
		}
	})
	return f
}

func TestStore_holdsCopies(t *testing.T) {
	var s Store
	if _, ready := s.Get(); ready {
		t.Error("ready before the first facts")
	}
	mine := full(t, "a")
	s.Set(mine)
	scribble := func(f Facts) {
		f.Node.Labels["a"], f.Node.Conditions["a"], f.Node.Capacity["a"], f.Node.Allocatable["a"] = "x", "x", "x", "x"
		f.Node.Addresses[0].Type, f.Unread["Node"] = "x", "x"
	}
	scribble(mine)
	got, ready := s.Get()
	if !ready {
		t.Error("not ready")
	}
	if diff := cmp.Diff(full(t, "a"), got); diff != "" {
		t.Errorf("after the giver wrote to its own (-want +got):\n%s", diff)
	}
	scribble(got)
	for _, name := range Names() {
		switch v, _ := got.Lookup(name); v := v.(type) {
		case map[string]string:
			v["a"] = "y"
		case []Address:
			v[0].Type = "y"
		}
	}
	got, _ = s.Get()
	if diff := cmp.Diff(full(t, "a"), got); diff != "" {
		t.Errorf("after a taker wrote to its own (-want +got):\n%s", diff)
	}
}

func TestStore_concurrently(t *testing.T) {
	var s Store
	s.Set(full(t, "a"))
	var wg sync.WaitGroup
	for i := range 4 {
		text := string(rune('a' + i))
		wg.Go(func() {
			for range 200 {
				f, _ := s.Get()
				if f.Node.Labels["a"] != f.Node.Name || f.Node.Addresses[0].Type != f.Node.Name {
					t.Error("one look mixes two states")
				}
				f.Node.Labels["a"], f.Node.Name, f.Node.Addresses = text, text, []Address{{text, text}}
				s.Set(f)
			}
		})
	}
	wg.Wait()
}
