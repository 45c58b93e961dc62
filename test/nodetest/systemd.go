package nodetest

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
	"testing"

	"github.com/tlspu/keel/core/command"
)

// A Systemd is systemctl of a machine that never was: it keeps the ids of its
// units in a file, so that it outlives a process that is killed.
type Systemd struct {
	File string
	mu   sync.Mutex
}

// A Unit as systemd has it. Every restart is a start with a new id.
type Unit struct {
	Starts int
	Fails  int // how many of the next starts fail
	Active string
}

// Units are what a Systemd has done and what it has.
type Units struct {
	Units   map[string]*Unit
	Log     []string // commands that are no query, "restart a.service"
	InACage bool     // answers as systemctl does in a chroot
}

// newSystemd runs the named units.
func newSystemd(t testing.TB, names ...string) *Systemd {
	s := &Systemd{File: filepath.Join(t.TempDir(), "systemd.json")}
	s.Change(t, func(u *Units) {
		u.Units = map[string]*Unit{}
		for _, name := range names {
			u.Units[name] = &Unit{Starts: 1, Active: "active"}
		}
	})
	return s
}

func (s *Systemd) load() (u Units, err error) {
	data, err := os.ReadFile(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	return u, errors.Join(err, json.Unmarshal(data, &u))
}

func (s *Systemd) save(u Units) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.File+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.File+".new", s.File)
}

// Change changes what the machine has.
func (s *Systemd) Change(t testing.TB, f func(*Units)) {
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

// Log gives the commands that changed something since it was asked last.
func (s *Systemd) Log(t testing.TB) []string {
	t.Helper()
	var log []string
	s.Change(t, func(u *Units) { log, u.Log = u.Log, nil })
	return log
}

// Run answers systemctl show, restart and daemon-reload.
func (s *Systemd) Run(_ context.Context, c command.Cmd) ([]byte, error) {
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
	if verb != "daemon-reload" && u.Units[name] == nil {
		err = &command.ExitError{Cmd: c, Code: 5, Stderr: fmt.Sprintf("Failed to restart %s: Unit %s not found.\n", name, name)}
	}
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

func show(x *Unit) []byte {
	if x == nil {
		return []byte("LoadState=not-found\nActiveState=inactive\nInvocationID=\n")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "LoadState=loaded\nActiveState=%s\nType=simple\nResult=success\nConditionResult=yes\nInvocationID=%032x\n", x.Active, x.Starts)
	return b.Bytes()
}
