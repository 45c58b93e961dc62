package plugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRegistry_lookup(t *testing.T) {
	tests := []struct {
		name    string
		items   []string
		lookup  string
		wantErr string
	}{
		{name: "there", items: []string{"file", "package"}, lookup: "file"},
		{name: "empty registry", lookup: "file", wantErr: `unknown handler "file": this binary has none`},
		{name: "one would work", items: []string{"file"}, lookup: "fiel", wantErr: `unknown handler "fiel": use file`},
		{name: "several, in order", items: []string{"c", "a", "b"}, lookup: "", wantErr: `unknown handler "": use a, b or c`},
		{name: "name of the reader's terminal", items: []string{"a"}, lookup: "\x1b[2J", wantErr: `unknown handler "\x1b[2J": use a`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRegistry[string]("handler")
			for _, name := range tt.items {
				r.Register(name, "item "+name)
			}
			got, err := r.Lookup(tt.lookup)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("Lookup(%q): error %v, want %s", tt.lookup, err, tt.wantErr)
				}
				return
			}
			if err != nil || got != "item "+tt.lookup {
				t.Errorf("Lookup(%q) = %q, %v", tt.lookup, got, err)
			}
		})
	}
}

func TestRegistry_namesAreSorted(t *testing.T) {
	r := NewRegistry[int]("thing")
	if got := r.Names(); len(got) != 0 {
		t.Errorf("Names of an empty registry = %v", got)
	}
	for i, name := range []string{"b", "c", "a"} {
		r.Register(name, i)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, r.Names()); diff != "" {
		t.Error(diff)
	}
}

func TestRegistry_mistakesOfTheProgramPanic(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{name: "", want: "plugin: register handler: empty name"},
		{name: "file", want: "plugin: register handler file: name is taken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRegistry[int]("handler")
			r.Register("file", 1)
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, tt.want) {
					t.Errorf("Register(%q) panics with %q, want %q", tt.name, got, tt.want)
				}
			}()
			r.Register(tt.name, 2)
			t.Errorf("Register(%q) returned", tt.name)
		})
	}
}

func TestExit_isFoundWhenWrapped(t *testing.T) {
	cause := errors.New("open motd.yaml: permission denied")
	err := fmt.Errorf("read documents: %w", &Exit{Code: 2, Err: cause})
	var exit *Exit
	if !errors.As(err, &exit) || exit.Code != 2 {
		t.Errorf("errors.As found %+v", exit)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	if got, want := err.Error(), "read documents: open motd.yaml: permission denied"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}
