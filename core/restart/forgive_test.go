package restart_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/restart"
)

// loads answers what systemctl show says of a unit's LoadState.
type loads map[string]string

func (l loads) Run(_ context.Context, c command.Cmd) ([]byte, error) {
	state, ok := l[c.Argv[len(c.Argv)-1]]
	if !ok {
		return nil, errors.New("no answer")
	}
	return []byte(state), nil
}

// TestOnly (A7, A9): what is not declared any more is not required, nor is its reload.
func TestOnly(t *testing.T) {
	m := &memory{open: true, rec: restart.Record{Phase: restart.Restarting, Units: map[string]string{"a": "1", "b": "1"}, Reload: true}}
	for _, declared := range [][]string{{"b"}, nil} {
		if err := restart.Only(t.Context(), m, declared); err != nil {
			t.Error(err)
		}
	}
	want := []string{"restarting map[b:1] reload=true", "restarting map[] reload=false"}
	if diff := cmp.Diff(want, m.saved); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
}

func TestForgive(t *testing.T) {
	const missing, loaded = "LoadState=not-found\n", "LoadState=loaded\n"
	tests := []struct {
		name     string
		owed     []string
		declared []string
		systemd  loads
		want     []string
		wantErr  bool
	}{
		{"misspelt and no longer declared", []string{"a", "shd"}, []string{"a"}, loads{"shd": missing}, []string{"a"}, false},
		{"all of them", []string{"shd"}, nil, loads{"shd": missing}, nil, false},
		{"misspelt and declared", []string{"shd"}, []string{"shd"}, loads{}, []string{"shd"}, false},
		{"no longer declared and there", []string{"a", "b"}, []string{"a"}, loads{"b": loaded}, []string{"a", "b"}, false},
		{"masked", []string{"b"}, nil, loads{"b": "LoadState=masked\n"}, []string{"b"}, false},
		{"in a chroot", []string{"b"}, nil, loads{"b": "Running in chroot, ignoring command 'show'\n"}, []string{"b"}, false},
		{"no answer", []string{"b", "c"}, nil, loads{"c": missing}, []string{"b", "c"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &memory{open: true, rec: restart.Record{Phase: restart.Restarting, Units: map[string]string{}}}
			for _, unit := range tt.owed {
				m.rec.Units[unit] = "id"
			}
			err := restart.Forgive(t.Context(), tt.systemd, m, tt.declared)
			if (err != nil) != tt.wantErr {
				t.Errorf("error %v", err)
			}
			want := map[string]string{}
			for _, unit := range tt.want {
				want[unit] = "id"
			}
			if diff := cmp.Diff(want, m.rec.Units); diff != "" {
				t.Errorf("owed (-want +got):\n%s", diff)
			}
			if same := len(tt.want) == len(tt.owed); same != (len(m.saved) == 0) {
				t.Errorf("saved %v", m.saved)
			}
		})
	}
	if err := restart.Forgive(t.Context(), loads{}, &memory{}, nil); err != nil {
		t.Errorf("without a record: %v", err)
	}
}
