package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// setting is a handler for tests: a file with a value.
type setting struct {
	fail  *error        // what Ensure ends with, after it changed something
	looks *atomic.Int64 // how often Observe was called
	calls *atomic.Int64 // how often Ensure was
	hold  *func()       // what Ensure does before it changes anything
}

func newSetting() setting {
	return setting{new(error), new(atomic.Int64), new(atomic.Int64), new(func())}
}

func (setting) Name() string { return "setting" }

func (setting) Validate(params map[string]string) error {
	if path := params["path"]; !strings.HasPrefix(path, "/") && !strings.Contains(path, "{{") {
		return errors.New("params.path: must be absolute")
	}
	return nil
}

func (s setting) Ensure(ctx context.Context, root string, params map[string]string) (bool, error) {
	s.calls.Add(1)
	if hold := *s.hold; hold != nil {
		hold()
	}
	tree, err := host.OpenTree(root)
	if err != nil {
		return false, err
	}
	mode := fs.FileMode(0o644)
	changed, err := tree.Put(ctx, params["path"], strings.NewReader(params["value"]), host.Attr{Mode: &mode, Parents: 0o755})
	return changed, errors.Join(err, tree.Close(), *s.fail)
}

func (s setting) Observe(_ context.Context, m handler.Machine, params map[string]string) (declared, observed drift.State, err error) {
	s.looks.Add(1)
	path := drift.Path{"value"}
	declared = drift.State{{Path: path, Value: params["value"]}}
	data, err := m.Files.Read(params["path"], 1<<20)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return declared, drift.State{{Path: path}}, nil
	case err != nil:
		return declared, drift.State{{Path: path, Value: drift.Unknown{Kind: drift.Permission, Reason: err.Error()}}}, nil
	}
	return declared, drift.State{{Path: path, Value: string(data)}}, nil
}

func (setting) Params() []handler.Param {
	return []handler.Param{{Name: "path"}, {Name: "value", Kind: "text"}}
}

func (setting) Claims(params map[string]string) []string { return []string{"path:" + params["path"]} }

// blind is the same handler for one that cannot look.
type blind struct{ handler.Handler }

func (blind) Name() string { return "blind" }

// handlers is a registry with setting and blind.
func handlers(s setting) *plugin.Registry[handler.Handler] {
	r := plugin.NewRegistry[handler.Handler]("handler")
	r.Register("setting", s)
	r.Register("blind", blind{s})
	return r
}

// A systemd is systemctl of a machine that never was: it keeps the ids of its
// units in a file, so that it outlives a process that is killed.
type systemd struct {
	file string
	mu   sync.Mutex
}

// A unit as systemd has it. Every restart is a start with a new id.
type unit struct {
	Starts int
	Fails  int // how many of the next starts fail
	Active string
}

type units struct {
	Units   map[string]*unit
	Log     []string // commands that are no query, "restart a.service"
	InACage bool     // answers as systemctl does in a chroot
}

// newSystemd runs the named units.
func newSystemd(t testing.TB, names ...string) *systemd {
	s := &systemd{file: filepath.Join(t.TempDir(), "systemd.json")}
	s.change(t, func(u *units) {
		u.Units = map[string]*unit{}
		for _, name := range names {
			u.Units[name] = &unit{Starts: 1, Active: "active"}
		}
	})
	return s
}

func (s *systemd) load() (u units, err error) {
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	return u, errors.Join(err, json.Unmarshal(data, &u))
}

func (s *systemd) save(u units) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

func (s *systemd) change(t testing.TB, f func(*units)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	f(&u)
	if err := s.save(u); err != nil {
		t.Fatal(err)
	}
}

// log gives the commands that changed something since it was asked last.
func (s *systemd) log(t testing.TB) []string {
	t.Helper()
	var log []string
	s.change(t, func(u *units) { log, u.Log = u.Log, nil })
	return log
}

func (s *systemd) Run(_ context.Context, c command.Cmd) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.load()
	if err != nil || len(c.Argv) < 2 || c.Argv[0] != "systemctl" {
		return nil, errors.Join(err, fmt.Errorf("no command of systemd: %s", c))
	}
	verb, name := c.Argv[1], c.Argv[len(c.Argv)-1]
	if u.InACage {
		if verb == "show" {
			return []byte("Running in chroot, ignoring command 'show'\n"), nil
		}
		return nil, nil
	}
	if verb == "show" {
		return show(u.Units[name]), nil
	}
	if !slices.Contains([]string{"restart", "daemon-reload"}, verb) {
		return nil, fmt.Errorf("not known here: %s", c)
	}
	u.Log = append(u.Log, strings.Join(slices.DeleteFunc(slices.Clone(c.Argv[1:]), func(s string) bool { return s == "--" }), " "))
	if x := u.Units[name]; verb == "restart" && x != nil {
		x.Starts++
		x.Active = "active"
		if x.Fails > 0 {
			x.Fails--
			x.Active, err = "failed", &command.ExitError{Cmd: c, Code: 1, Stderr: "job failed"}
		}
	}
	return nil, errors.Join(s.save(u), err)
}

func show(x *unit) []byte {
	if x == nil {
		return []byte("LoadState=not-found\nActiveState=inactive\nInvocationID=\n")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "LoadState=loaded\nActiveState=%s\nType=simple\nResult=success\nConditionResult=yes\nInvocationID=%032x\n", x.Active, x.Starts)
	return b.Bytes()
}
